#!/usr/bin/env bash
# asup run --hosts over real ssh: two network namespaces with an sshd each stand for two hosts. Needs
# root, ip and sshd; tests/launch/CMakeLists.txt leaves the test out, and says so, where they are
# missing.
#
#   ssh_hosts_test.sh ASUP MEMBER     the asup program, and tests/launch/member.cc
set -euo pipefail

asup=$(realpath "$1")
member=$(realpath "$2")
id=$$
subnet=10.213.$((id % 250))
bridge=asbr$id
hosts=(alpha beta)
work=$(mktemp -d)

namespace() { echo "asup$id$1"; }

clean_up() {
  local status=$?
  set +e
  [ $status = 0 ] || { echo "--- output of the last job:"; cat "$work"/out "$work"/err; } 2>/dev/null
  for host in "${hosts[@]}"; do
    ip netns pids "$(namespace "$host")" 2>/dev/null | xargs -r kill -9
    ip netns del "$(namespace "$host")" 2>/dev/null
  done
  ip link del "$bridge" 2>/dev/null
  rm -rf "$work"
  exit $status
}
trap clean_up EXIT
trap 'exit 1' INT TERM

fail() { echo "FAILED: $*"; exit 1; }
expect() { grep -qE -- "$1" "$2" || fail "'$1' is not in $(basename "$2")"; }

set_up_host() {  # name, last number of its address
  local host=$1 number=$2 ns
  ns=$(namespace "$host")
  ip netns add "$ns"
  ip link add "as$id$number" type veth peer name eth0 netns "$ns"
  ip link set "as$id$number" master "$bridge" up
  ip -n "$ns" addr add "$subnet.$number/24" dev eth0
  ip -n "$ns" link set eth0 up
  ip -n "$ns" link set lo up
  cat > "$work/sshd_$host" <<EOF
ListenAddress $subnet.$number
HostKey $work/host_key
AuthorizedKeysFile $work/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
EOF
  ip netns exec "$ns" /usr/sbin/sshd -f "$work/sshd_$host" -E "$work/sshd_$host.log"
}

set_up() {
  mkdir -p /run/sshd
  ssh-keygen -q -t ed25519 -N '' -f "$work/host_key"
  ssh-keygen -q -t ed25519 -N '' -f "$work/user_key"
  ip link add "$bridge" type bridge
  ip addr add "$subnet.1/24" dev "$bridge"
  ip link set "$bridge" up
  set_up_host alpha 2
  set_up_host beta 3
  for name in alpha:2 beta:3 gone:4; do
    echo "* $(cat "$work/host_key.pub")" > "$work/known_hosts"
    printf 'Host %s\n  HostName %s.%s\n' "${name%:*}" "$subnet" "${name#*:}" >> "$work/config"
  done
  cat >> "$work/config" <<EOF
Host *
  User root
  IdentityFile $work/user_key
  IdentitiesOnly yes
  UserKnownHostsFile $work/known_hosts
  GlobalKnownHostsFile /dev/null
EOF
}

# Runs a job to its end; leaves its output in $work/out and $work/err. The first word is the status
# that is expected.
run() {
  local expected=$1 status=0
  shift
  timeout 60 "$asup" run --ssh "ssh -F $work/config" "$@" > "$work/out" 2> "$work/err" || status=$?
  [ "$status" = "$expected" ] || fail "status $status instead of $expected: asup run $*"
}

# The job's own processes on the hosts: all but the sshd that listens.
job_processes() {
  for host in "${hosts[@]}"; do
    for pid in $(ip netns pids "$(namespace "$host")"); do
      case "$(cat "/proc/$pid/comm" 2>/dev/null)" in sshd | '') ;; *) echo "$pid" ;; esac
    done
  done
}

nothing_left() {
  for _ in $(seq 100); do
    [ -z "$(job_processes)" ] && return
    sleep 0.1
  done
  fail "left behind: $(job_processes | xargs -r ps -o pid=,args= -p)"
}

start_in_background() {
  : > "$work/out"  # what the job before has said is not taken for this one's
  timeout 60 "$asup" run --ssh "ssh -F $work/config" "$@" > "$work/out" 2> "$work/err" &
  timeout_pid=$!
  for _ in $(seq 300); do
    [ "$(grep -c ready "$work/out")" = 2 ] && { launcher=$(pgrep -P $timeout_pid); return; }
    sleep 0.1
  done
  fail "the ranks did not start"
}

set_up
cd "$work"

echo "ranks join from two hosts, with a key that nobody sees"
run 0 --hosts alpha,beta -- "$member" join
expect '^\[0\] rank 0 \(pid [0-9]+ on .*\) of 2, id 1$' out
expect '^\[1\] rank 1 \(pid [0-9]+ on .*\) of 2, id 2$' out
run 0 --hosts alpha,beta -- "$member" find-key
expect '^\[0\] scan works: true, raw: 0, hex: 0$' out
expect '^\[1\] scan works: true, raw: 0, hex: 0$' out

echo "each host has its ranks, the folder, the variables, and the way to the launcher"
run 0 --hosts alpha:2,beta:1,localhost:1 --env COLOUR=blue -- \
  sh -c 'echo $ASUP_RANK/$ASUP_SIZE $ASUP_LOCAL_RANK/$ASUP_LOCAL_SIZE $COLOUR $PWD \
         $ASUP_COORDINATOR $(readlink /proc/self/ns/net)'
for place in '0/4 0/2' '1/4 1/2' '2/4 0/1' '3/4 0/1'; do
  expect "^\[${place%%/*}\] $place blue $work $subnet.1:[0-9]+ net:" out
done
namespaces=$(grep -o 'net:.*' out | sort | uniq -c | awk '{print $1}' | sort -n | xargs)
[ "$namespaces" = "1 1 2" ] || fail "ranks per namespace: $namespaces instead of 1 1 2"

echo "servers join beside the ranks on both hosts, and end with them"
run 0 --hosts alpha,beta --servers 2 -v -- "$member" work
expect '^\[1\] worker 1 of 2, servers: 2$' out
expect '^asup run: server 0 \(pid [0-9]+ on .*\) exited with status 0$' err
expect '^asup run: server 1 \(pid [0-9]+ on .*\) exited with status 0$' err
nothing_left

echo "output is whole, and each stream its own"
run 0 --hosts alpha,beta -- sh -c 'seq 1 20000; echo error $ASUP_RANK >&2'
[ "$(grep -c '^\[0\] [0-9]*$' out)" = 20000 ] || fail "lines of rank 0 are missing"
[ "$(grep -c '^\[1\] [0-9]*$' out)" = 20000 ] || fail "lines of rank 1 are missing"
expect '^\[1\] error 1$' err

echo "a rank that fails ends the others and is named"
run 1 --hosts alpha,beta -- sh -c '[ $ASUP_RANK = 1 ] && exit 5; sleep 100'
tail -n 1 err > last
expect '^asup run: rank 1 \(pid [0-9]+ on .*\) exited with status 5$' last
nothing_left
run 1 --hosts alpha,beta -- "$member" die 1 9
tail -n 1 err > last
expect '^asup run: rank 1 \(pid [0-9]+ on .*\) was killed by signal 9 \(SIGKILL\)' last
expect '^\[0\] lost rank 1 ' out
nothing_left

echo "a host out of reach is named in ssh's own words"
run 1 --hosts alpha,gone -- sleep 100
tail -n 1 err > last
expect "^asup run: host gone could not be reached: ssh: connect to host $subnet.4 port 22: " last
nothing_left

echo "an asup that is not there is named"
run 1 --hosts alpha --remote-asup /no/such/asup -- true
tail -n 1 err > last
expect '^asup run: host alpha could not start /no/such/asup .*--remote-asup.*: .*/no/such/asup' last

echo "Ctrl-C ends the ranks on all hosts"
start_in_background --hosts alpha,beta -- sh -c 'echo ready; sleep 100'
kill -INT "$launcher"
status=0; wait "$timeout_pid" || status=$?
[ $status = 130 ] || fail "status $status after Ctrl-C"
nothing_left

echo "a killed launcher leaves nothing behind"
start_in_background --hosts alpha,beta -- sh -c 'echo ready; sleep 100'
kill -KILL "$launcher"
wait "$timeout_pid" || true
nothing_left

echo "a lost connection ends the job, and the ranks on both sides of it"
start_in_background --hosts alpha,beta -- sh -c 'echo ready; sleep 100'
pkill -KILL -P "$launcher" -f 'ssh .* beta'
status=0; wait "$timeout_pid" || status=$?
[ $status = 1 ] || fail "status $status after a lost connection"
tail -n 1 err > last
expect '^asup run: host beta is no longer in reach: ' last
nothing_left

echo "all well"
