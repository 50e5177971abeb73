#!/usr/bin/env bash
# Real launches by mpirun, torchrun or srun: three ranks find each other and compute; then one of them is killed, and the
# launch ends at once, not with success. Slurm is a cluster of this machine alone, whose daemons live as long as the test.
# Where the launcher is missing the test is skipped and says what is to be installed.
# usage: launchers.sh mpirun|torchrun|srun TEST_DIST_GROUP
set -euo pipefail
launcher=$1
program=$2
scratch=$(mktemp -d)
daemons=()
cleanup() {
  # What the daemons of Slurm started knows which cluster it is of.
  for process in /proc/[0-9]*; do
    if grep -qsF "SLURM_CONF=$scratch/" "$process/environ"; then
      [ "${process#/proc/}" = $$ ] || daemons+=("${process#/proc/}")
    fi
  done
  if [ ${#daemons[@]} -gt 0 ]; then
    kill "${daemons[@]}" 2>/dev/null || true
    for _ in $(seq 30); do kill -0 "${daemons[@]}" 2>/dev/null || break; sleep 0.1; done
    kill -KILL "${daemons[@]}" 2>/dev/null || true
  fi
  disown -a
  { wait; } 2>/dev/null || true
  rm -rf "$scratch"
}
trap cleanup EXIT
skip() {
  echo "skipped: $1"
  exit 77
}
need() { command -v "$1" >/dev/null || skip "no $1 here: $2"; }

export OMP_NUM_THREADS=1 PATH=$PATH:/usr/sbin CKPT_RANK_REPORT=$scratch/report

start_slurm() {
  for daemon in srun slurmctld slurmd munged sinfo; do need "$daemon" "apt-get install slurm-wlm"; done
  [ "$(id -u)" -eq 0 ] || skip "the daemons of Slurm are started by root alone"
  local host port
  host=$(hostname -s)
  port=$((10000 + 2 * ($$ % 3000)))
  mkdir -p "$scratch"/{spool,state}
  chmod 755 "$scratch"
  head -c 1024 /dev/urandom >"$scratch/munge.key"
  chmod 600 "$scratch/munge.key"
  munged --foreground --force --key-file="$scratch/munge.key" --socket="$scratch/munge.socket" \
    --pid-file="$scratch/munge.pid" --log-file="$scratch/munge.log" --seed-file="$scratch/munge.seed" \
    >/dev/null 2>&1 &
  daemons+=($!)
  cat >"$scratch/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$scratch/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmUser=root
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.pid
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmdSpoolDir=$scratch/spool
StateSaveLocation=$scratch/state
SwitchType=switch/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE
CONF
  export SLURM_CONF=$scratch/slurm.conf
  for _ in $(seq 50); do [ -S "$scratch/munge.socket" ] && break; sleep 0.1; done
  slurmctld -D >"$scratch/slurmctld.log" 2>&1 &
  daemons+=($!)
  slurmd -D >"$scratch/slurmd.log" 2>&1 &
  daemons+=($!)
  for _ in $(seq 100); do
    sinfo -h -o %T 2>/dev/null | grep -q idle && return 0
    sleep 0.2
  done
  tail -n 3 "$scratch"/*.log
  skip "the daemons of Slurm do not start here"
}

case $launcher in
  mpirun)
    need mpirun "apt-get install openmpi-bin"
    launch=(mpirun --allow-run-as-root --oversubscribe -n 3)
    ;;
  torchrun)
    need torchrun "pip install torch"
    launch=(torchrun --nproc-per-node 3 --master-port $((16000 + $$ % 4000)) --no-python)
    ;;
  srun)
    start_slurm
    launch=(srun -n 3 --overcommit --kill-on-bad-exit=1)
    ;;
  *)
    echo "usage: launchers.sh mpirun|torchrun|srun TEST_DIST_GROUP" >&2
    exit 2
    ;;
esac

# run ROLE: its exit status; what was said is in $scratch/said.
run() {
  local status=0
  timeout -k 5 60 "${launch[@]}" "$program" --rank "$1" >"$scratch/said" 2>&1 </dev/null || status=$?
  echo $status
}

# try NAME: three ranks, then some that end without a goodbye, then a killed one.
try() {
  local status start seconds
  status=$(run collectives)
  [ "$status" -eq 0 ] || { echo "three ranks: exit status $status"; tail -n 20 "$scratch/said"; exit 1; }
  echo "$1: three ranks compute together"

  status=$(run ends)
  [ "$status" -eq 0 ] || { echo "ranks that exit one by one: exit status $status"; tail -n 20 "$scratch/said"; exit 1; }

  start=$SECONDS
  status=$(run killed)
  seconds=$((SECONDS - start))
  [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && [ $seconds -le 40 ] ||
    { echo "a killed rank: exit status $status after $seconds s"; tail -n 20 "$scratch/said"; exit 1; }
  grep -Eq "rank [02] of 3: all_reduce number [0-9]+ .*: rank 1 .* is gone|signal 9|SIGKILL|Killed" "$scratch/said" ||
    { echo "nobody says that a rank was killed"; tail -n 20 "$scratch/said"; exit 1; }
  echo "$1: a killed rank ends the launch after $seconds s with status $status:"
  grep -Em 3 "is gone|signal 9|SIGKILL|Killed" "$scratch/said"
}

# Its store stays, with what the ranks of the first attempt left in it.
try_restart() {
  local status
  launch=("${launch[0]}" --max-restarts 1 "${launch[@]:1}")
  status=$(run restarted)
  [ "$status" -eq 0 ] || { echo "ranks that are started again: exit status $status"; tail -n 20 "$scratch/said"; exit 1; }
  echo "torchrun: ranks that are started again compute together"
}

try "$launcher"
if [ "$launcher" = torchrun ]; then try_restart; fi
if [ "$launcher" = mpirun ]; then
  export CKPT_TEST_BACKEND=mpi
  if "$program" --has mpi; then try "mpirun with the backend mpi"; fi
fi
