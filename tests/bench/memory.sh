#!/usr/bin/env bash
# Peak memory of every streaming command on files of 8 GiB, which must stay under 512 MiB. Inputs are sparse where the
# file system allows it; outputs are not, so the folder needs about 40 GiB. Prints one line a command.
# Use: tests/bench/memory.sh [--size GIB] [build/bin/ckpt]      (folder: $TMPDIR or /tmp)
set -uo pipefail
gib=8
if [ "${1:-}" = --size ]; then
  gib=$2
  shift 2
fi
ckpt=$(realpath "${1:-build/bin/ckpt}")
limit_kib=$((512 * 1024))
work=$(mktemp -d "${TMPDIR:-/tmp}/ckpt-memory.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

# A safetensors file of 8 F32 matrices with a sparse body.
make_input() {
  local name=$1 prefix=$2
  local each=$((gib << 27)) header='{"__metadata__":{"format":"pt"}' i
  local columns=4096
  local rows=$((each / 4 / columns))
  for i in 0 1 2 3 4 5 6 7; do
    header+=",\"${prefix}layer.$i.weight\":{\"dtype\":\"F32\",\"shape\":[$rows,$columns],"
    header+="\"data_offsets\":[$((i * each)),$(((i + 1) * each))]}"
  done
  header+='}'
  while [ $(((${#header} + 8) % 8)) -ne 0 ]; do header+=' '; done
  local size=${#header}
  printf "\\x$(printf %02x $((size & 255)))\\x$(printf %02x $((size >> 8 & 255)))\\0\\0\\0\\0\\0\\0%s" "$header" > "$name"
  truncate -s $((8 + size + 8 * each)) "$name"
}

# measure LABEL EXPECTED_EXIT COMMAND...: runs it and compares its peak resident set with the limit.
measure() {
  local label=$1 expected=$2
  shift 2
  local start=$SECONDS status=0
  /usr/bin/time -f %M -o peak "$@" > out 2> err || status=$?
  local peak
  peak=$(tail -1 peak)
  local verdict=ok
  if [ "$status" -ne "$expected" ]; then
    verdict="FAILED: exit $status: $(head -c 200 err | tr '\n' ' ')"
    failed=1
  elif [ "$peak" -gt "$limit_kib" ]; then
    verdict="FAILED: over 512 MiB"
    failed=1
  fi
  printf '%-28s %6d MiB %5d s  %s\n' "$label" $((peak / 1024)) $((SECONDS - start)) "$verdict"
}

# write LABEL COMMAND...: one that makes `result`, removed afterwards.
write() {
  local label=$1
  shift
  measure "$label" 0 "$ckpt" "$@" -q
  rm -rf result.*
}

make_input in.safetensors module.
for c in ls info tree verify hash stat scan; do
  measure "$c" 0 "$ckpt" $c in.safetensors
done
measure "cat" 0 "$ckpt" cat in.safetensors module.layer.0.weight --slice 0:2,0:4
measure "diff" 0 "$ckpt" diff in.safetensors in.safetensors
measure "why" 1 "$ckpt" why in.safetensors --for resnet50
write "strip-prefix" strip-prefix in.safetensors -o result.safetensors
write "add-prefix" add-prefix --prefix m. in.safetensors -o result.safetensors
write "rename" rename --glob 'module.layer.{#i}.*=blocks.{i}.*' in.safetensors -o result.safetensors
write "remap" remap --to cpu in.safetensors -o result.safetensors
write "select" select --include '*.0.*' --include '*.1.*' in.safetensors -o result.safetensors
write "compact" compact in.safetensors -o result.safetensors
write "cast f32 -> bf16" cast --to bf16 in.safetensors -o result.safetensors
write "publish --to bf16" publish --to bf16 in.safetensors -o result.safetensors
write "avg" avg in.safetensors in.safetensors -o result.safetensors
printf '[[rule]]\ntranspose = "*.weight"\n' > rules.toml
write "rename: transpose" rename --map rules.toml in.safetensors -o result.safetensors
measure "split" 0 "$ckpt" split --max-shard-size 2GiB in.safetensors -o shards -q
write "join" join shards -o result.safetensors
rm -rf shards
for target in pth ckpt npz gguf h5; do
  measure "convert safetensors -> $target" 0 "$ckpt" convert in.safetensors mid.$target -q
  if [ -f mid.$target ]; then
    measure "verify $target" 0 "$ckpt" verify mid.$target
    measure "diff $target" 0 "$ckpt" diff mid.$target in.safetensors
    measure "convert $target -> safetensors" 0 "$ckpt" convert mid.$target result.safetensors -q
    write "strip-prefix $target" strip-prefix mid.$target -o result.$target
  fi
  rm -f mid.$target result.safetensors
done
exit $failed
