#!/usr/bin/env bash
# Plants ten known mistakes, one at a time, into a copy of one source of libckpt, links it in front of the library, and
# sees whether the fault trials find it: more violations than without it. A place that is no longer there is an error.
# usage: bash tests/faults/planted.sh BUILD_FOLDER
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "${1:?usage: planted.sh BUILD_FOLDER}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# name | source | what a sed script (several joined by ;) or an awk program does to it | trial | operations
bugs=()
bug() { bugs+=("$1|$2|$3|$4|$5"); }
io=libckpt/io
file_fsync='file_ops()\.fsync(fd\.get()) != 0'
folder_fsync='file_ops()\.fsync(target\.folder\.get()) == 0'
late_fsync='detail::Fd late(::openat(target.folder.get(), target.name.c_str(), O_RDONLY \| O_CLOEXEC)); if (late) file_ops().fsync(late.get());'
bug "no fsync of the file" $io/atomic_file.cpp "s/$file_fsync/false/" power-cuts "save over .safetensors"
bug "no fsync of the folder" $io/atomic_file.cpp "s/$folder_fsync/true/" power-cuts "save over .safetensors"
bug "rename before fsync" $io/atomic_file.cpp "s/$file_fsync/false/;;s/if ($folder_fsync)/$late_fsync &/" power-cuts "save over .safetensors"
bug "fsync repeated after it failed" $io/atomic_file.cpp "s/$file_fsync/(& \&\& &)/" errors "save over .safetensors"
bug "old file removed before the rename" $io/atomic_file.cpp 's/int result = file_ops()\.renameat2(/file_ops().unlinkat(folder, target.name.c_str(), 0); &/' power-cuts "save over .safetensors"
bug "index before its shards" libckpt/format/safetensors/shards.cpp 'MOVE set.commit( BEFORE std::uint64_t done = 0;' power-cuts "replace 4 shards"
bug "superseded shards removed before the commit" $io/file_set.cpp 's/impl_->sync_folder();/for (const std::string\& old : impl_->superseded) impl_->remove(old); &/' power-cuts "replace 4 shards"
bug "note not durable" $io/file_set.cpp 's/\(AtomicFile note(.*\)\.durable = impl_->options\.durable/\1.durable = false/' power-cuts "replace 4 shards"
bug "close unchecked" $io/atomic_file.cpp 's/file_ops()\.close(fd\.release()) != 0/(file_ops().close(fd.release()), false)/' errors "save over .safetensors"
bug "lock on the target itself" $io/writer_lock.cpp 's/file_(lock_name(name))/file_(::faccessat(folder, name.c_str(), F_OK, 0) == 0 ? name : lock_name(name))/;;s/if (fd_) file_ops()\.unlinkat(/if (fd_ \&\& file_[0] == 46) file_ops().unlinkat(/;;s/^  write_owner();/  if (file_[0] == 46) write_owner();/' second-writer "replace 4 shards"

# edit SCRIPT <IN >OUT: each part has to change something.
edit() {
  local script=$1 part before after
  before=$(cat; echo .)
  if [[ $script == MOVE* ]]; then
    script=${script#MOVE }
    after=$(awk -v what="${script%% BEFORE *}" -v where="${script##* BEFORE }" '
      index($0, what) { moved = $0 }
      { lines[NR] = $0 }
      END { for (i = 1; i <= NR; i++) {
        if (index(lines[i], where) && moved != "") print moved
        if (!index(lines[i], what)) print lines[i] } }' <<<"$before")
    [ "$after" != "$before" ] || return 1
    before=$after
  else
    while [ -n "$script" ]; do
      part=${script%%;;s/*}
      script=${script#"$part"}
      script=${script#;;}
      after=$(sed -e "$part" <<<"$before")
      [ "$after" != "$before" ] || return 1
      before=$after
    done
  fi
  printf '%s' "${before%.}"
}

violations() { sed -n 's/^points tried: .*violations: //p'; }

# compile SOURCE COPY OBJECT, as the build does, but quickly.
compile() {
  local command
  command=$(ninja -C "$build" -t commands lib/libckpt.a | grep -F -- "-c $root/$1" | tail -n 1)
  [ -n "$command" ] || { echo "planted: the build does not compile $1" >&2; return 1; }
  command=$(sed -E -e 's/ -M[TF] [^ ]+//g; s/ -MD//; s/ -o [^ ]+//' -e "s| -c [^ ]+| -O0 -w -c $2 -o $3|" <<<"$command")
  (cd "$build" && eval "$command")
}

link() {
  local command
  command=$(ninja -C "$build" -t commands bin/fault_trials | tail -n 1)
  (cd "$build" && eval "${command/ -o bin\/fault_trials/ -o $2 $1}")
}

# try NUMBER: leaves "found", "missed" or what went wrong in the file NUMBER.answer.
try() {
  local name source script trial only planted plain
  IFS='|' read -r name source script trial only <<<"${bugs[$1]//\\|/\\x7c}"
  script=${script//\\x7c/|}
  local copy=$work/$1.cpp
  if ! edit "$script" <"$root/$source" >"$copy"; then
    echo "the place in $source is no longer there" >"$work/$1.answer"
  elif ! compile "$source" "$copy" "$work/$1.o" || ! link "$work/$1.o" "$work/$1.run"; then
    echo "does not compile" >"$work/$1.answer"
  else
    plain=$("$build/bin/fault_trials" --only "$only" "$trial" 2>/dev/null | violations || true)
    planted=$("$work/$1.run" --only "$only" "$trial" 2>/dev/null | violations || true)
    rm -f "$work/$1.run"
    if [ -z "$plain" ] || [ -z "$planted" ]; then
      echo "the trial does not run" >"$work/$1.answer"
    elif [ "$planted" -gt "$plain" ]; then
      echo found >"$work/$1.answer"
    else
      echo missed >"$work/$1.answer"
    fi
  fi
}

running=0
for i in "${!bugs[@]}"; do
  try "$i" &
  running=$((running + 1))
  if [ $running -ge "$(nproc)" ]; then wait -n; running=$((running - 1)); fi
done
wait
found=0
for i in "${!bugs[@]}"; do
  answer=$(cat "$work/$i.answer")
  [ "$answer" = found ] && found=$((found + 1))
  echo "planted bug $((i + 1)), ${bugs[$i]%%|*}: $answer"
done
echo "planted bugs: ${#bugs[@]}, found: $found"
[ $found -eq ${#bugs[@]} ]
