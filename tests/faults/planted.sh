#!/usr/bin/env bash
# Plants known mistakes, one at a time, into a copy of one source of libckpt, links it in front of the library, and
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
folder_fsync='if (impl_->options\.durable) detail::sync_new_names('
late_fsync='detail::Fd late(::openat(impl_->target.folder.get(), impl_->target.name.c_str(), O_RDONLY \| O_CLOEXEC)); if (late) file_ops().fsync(late.get());'
one="save over .safetensors"
set="replace 4 shards"
bug "no fsync of the file" $io/atomic_file.cpp "s/$file_fsync/false/" power-cuts "$one"
bug "no fsync of the folder" $io/atomic_file.cpp "s/$folder_fsync/if (false) detail::sync_new_names(/" power-cuts "$one"
bug "rename before fsync" $io/atomic_file.cpp "s/$file_fsync/false/;;s/$folder_fsync/$late_fsync &/" power-cuts "$one"
bug "fsync repeated after it failed" $io/atomic_file.cpp "s/$file_fsync/(& \&\& &)/" errors "$one"
bug "old file removed before the rename" $io/atomic_file.cpp 's/detail::put_in_place({folder, temporary}/file_ops().unlinkat(folder, target.name.c_str(), 0); &/' power-cuts "$one"
bug "index before its shards" $io/file_set.cpp 'MOVE impl_->place_members(); BEFORE impl_->remove_hidden(hidden);' power-cuts "$set"
bug "superseded shards removed before the commit" $io/file_set.cpp 's/impl_->place_members();/for (const auto\& old : impl_->superseded) file_ops().unlinkat(impl_->folder_fd.get(), old.name.c_str(), 0); &/' power-cuts "$set"
bug "shards not durable before the index" $io/file_set.cpp 's/^ *\.durable = options\.durable,$/.durable = false,/' power-cuts "$set"
bug "file made durable before its last bytes are written" $io/atomic_file.cpp 's/^    settle();$//;;s/^    direct\.reset();$//;;s/^    if (file_ops()\.close(fd\.release())/    settle();\n&/' power-cuts "direct save over .safetensors"
bug "close unchecked" $io/atomic_file.cpp 's/file_ops()\.close(fd\.release()) != 0/(file_ops().close(fd.release()), false)/' errors "$one"
record='error = sync_folder(folder());'
bug "edit in place before its record is durable" $io/edit_journal.cpp "s/$record//" power-cuts "place .safetensors"
bug "edit in place that is not durable" $io/edit_journal.cpp 's/file_ops()\.fsync(file\.get()) == 0/true/' power-cuts "place .safetensors"
bug "record of an edit removed before the old bytes are durable" $io/edit_journal.cpp 's/file_ops()\.fsync(target) != 0/false/' power-cuts "interrupted edit"
bug "new end of an interrupted edit not cut off" $io/edit_record.cpp 's/bool cut = error == 0/bool cut = false \&\& error == 0/' power-cuts "interrupted append"
bug "shards edited in place that are not durable" $io/set_edit.cpp 's/error = file_ops()\.fsync(file\.get()) == 0 ? 0 : errno;/error = 0;/' power-cuts "strip-prefix --in-place of 4 shards"
bug "edited shards taken for new before the index is" $io/edit_record.cpp 's/return undecided ? EditStage::begun : stage;/return stage;/' power-cuts "strip-prefix --in-place of 4 shards"
bug "undo of a distributed checkpoint where its metadata lie" libckpt/format/in_place.cpp 's/if (path\.filename() == detail::kDcpMetadata)/if (false)/' kills "undo of an edit of a distributed"
bug "undo of a distributed checkpoint that is not durable" $io/edit_journal.cpp 's/AtomicFile before(path);/AtomicFile before(path, {.durable = false});/' power-cuts "undo of an edit of a distributed"
bug "lock on the target itself" $io/writer_lock.cpp 's/file_(lock_name(name))/file_(::faccessat(folder, name.c_str(), F_OK, 0) == 0 ? name : lock_name(name))/;;s/if (!fd_) return;/if (!fd_) return; if (file_ == target_) return;/;;s/if (file\.existed/if (file_ != target_ \&\& file.existed/;;s/\(^  .*\)write_owner();/\1if (file_ != target_) write_owner();/' second-writer "$set"
bug "old steps removed before what stays is durable" libckpt/run/retention.cpp 's/^  secure(folder\.get(), plan);//' power-cuts "gc after a save that"
bug "damaged step counted among those that stay" libckpt/run/step_check.cpp 's/if (depth == CheckDepth::every_byte) check_bytes/if (false) check_bytes/' power-cuts "gc with a damaged"

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
    [ "$after" != "$before" ] && [ "$(wc -l <<<"$after")" = "$(wc -l <<<"$before")" ] || return 1
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

# violations PROGRAM OPERATIONS TRIAL: how many, or nothing when the trial could not be made.
violations() {
  local code=0 said=$work/said.$BASHPID
  "$1" --only "$2" "$3" >"$said" 2>/dev/null || code=$?
  [ $code -gt 1 ] || sed -n 's/^points tried: .*violations: //p' "$said"
  rm -f "$said"
}

# command_of FILE: what the build compiles it with, or nothing.
command_of() { ninja -C "$build" -t commands lib/libckpt.a | grep -F -- "-c $1" | tail -n 1 || true; }

# compile SOURCE COPY OBJECT, as the build does (ccache keeps it). A united build compiles it together with others of its folder.
compile() {
  local command copy=$2 united
  command=$(command_of "$root/$1")
  if [ -z "$command" ]; then
    for united in $(grep -rlF "\"$root/$1\"" "$build"/libckpt/CMakeFiles/ckpt{,_small}.dir/Unity 2>/dev/null); do
      command=$(command_of "$united")
      [ -z "$command" ] || break  # others were left by a build with other groups
    done
    [ -n "$command" ] || { echo "planted: the build does not compile $1" >&2; return 1; }
    copy=$2.united.cpp
    sed "s|\"$root/$1\"|\"$2\"|" "$united" >"$copy"
  fi
  command=$(sed -E -e 's/ -M[TF] [^ ]+//g; s/ -MD//; s/ -o [^ ]+//' -e "s| -c [^ ]+| -w -c $copy -o $3|" <<<"$command")
  (cd "$build" && eval "$command")
}

link() {
  local command
  command=$(ninja -C "$build" -t commands bin/fault_trials | tail -n 1)
  (cd "$build" && eval "${command/ -o bin\/fault_trials/ -o $2 $1}")
}

# without_bugs TRIAL OPERATIONS: the file with what the trial finds where nothing is planted; many bugs share it.
without_bugs() { echo "$work/plain.$(cksum <<<"$1|$2" | tr ' ' .)"; }

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
    plain=$(cat "$(without_bugs "$trial" "$only")")
    planted=$(violations "$work/$1.run" "$only" "$trial")
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

# start COMMAND...: beside others, as many as there are cores.
running=0
start() {
  "$@" &
  running=$((running + 1))
  if [ $running -ge "$(nproc)" ]; then wait -n; running=$((running - 1)); fi
}
find_without_bugs() { violations "$build/bin/fault_trials" "$2" "$1" >"$(without_bugs "$1" "$2")"; }
while IFS='|' read -r trial only; do
  start find_without_bugs "$trial" "$only"
done < <(printf '%s\n' "${bugs[@]//\\|/}" | cut -d'|' -f4,5 | sort -u)
wait
running=0
for i in "${!bugs[@]}"; do
  start try "$i"
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
