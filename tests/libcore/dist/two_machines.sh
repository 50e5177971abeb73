#!/usr/bin/env bash
# Two machines, simulated by network namespaces: ranks find each other over the wire and compute; then the link is cut, and
# both say so within their time-out in place of waiting for ever. Needs root and ip (Debian: iproute2), else it is skipped.
# usage: two_machines.sh TEST_DIST_GROUP
set -euo pipefail
program=$1
a=ckpt-a-$$ b=ckpt-b-$$
scratch=$(mktemp -d)
cleanup() {
  kill $(jobs -p) 2>/dev/null || true
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
  rm -rf "$scratch"
}
trap cleanup EXIT
if ! { [ "$(id -u)" -eq 0 ] && command -v ip && ip netns add "$a" && ip netns add "$b"; } >/dev/null 2>&1; then
  echo "skipped: no network namespaces here"
  exit 77
fi
ip -n "$a" link add wire type veth peer name wire netns "$b"
number=0
for machine in "$a" "$b"; do
  number=$((number + 1))
  ip -n "$machine" addr add "10.231.7.$number/24" dev wire
  ip -n "$machine" link set wire up
  ip -n "$machine" link set lo up
done

# start RANK MACHINE ROLE: one of two ranks; its end is in $scratch/ROLE.RANK. Real machines cannot read each other's memory.
start() {
  CKPT_RANK_REPORT=$scratch/$3.$1.report RANK=$1 WORLD_SIZE=2 MASTER_ADDR=10.231.7.1 MASTER_PORT=29500 OMP_NUM_THREADS=1 CORE_DIST_NEAR=0 \
    timeout 30 ip netns exec "$2" "$program" --rank "$3" >/dev/null 2>"$scratch/$3.$1.errors" &
}

start 0 "$a" collectives
first=$!
start 1 "$b" collectives
second=$!
wait $first && wait $second || { cat "$scratch"/collectives.*; exit 1; }
echo "two machines compute together"

start 0 "$a" cut
first=$!
start 1 "$b" cut
second=$!
for _ in $(seq 100); do [ -e "$scratch/cut.1.report" ] && break; sleep 0.1; done
ip -n "$a" link set wire down
for rank in $first $second; do
  status=0
  wait "$rank" || status=$?
  [ $status -eq 1 ] || { echo "a rank ended with $status"; cat "$scratch"/cut.*; exit 1; }
done
for rank in 0 1; do
  grep -q "^rank $rank of 2: all_reduce number [0-9]* (.*): " "$scratch/cut.$rank.errors" || { cat "$scratch"/cut.*; exit 1; }
done
echo "both say that the link was cut: $(cat "$scratch/cut.0.errors")"
