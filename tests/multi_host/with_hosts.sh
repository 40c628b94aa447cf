#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a command under Open MPI on several emulated hosts: network namespaces with a host name and two
# links each. One link carries the messages of MPI at a given bandwidth, the other one is mpirun's.
#
# sh tests/multi_host/with_hosts.sh [OPTIONS] COMMAND [ARGUMENTS]
#   --hosts N     number of hosts (4)
#   --ranks N     ranks on each host (2)
#   --rate RATE   bandwidth of the link for messages, as in tc (1gbit), or none for no limit
#   --burst SIZE  what a link lets through at once, beyond that rate (256kb); with 16kb the rate also
#                 holds for messages of some 64 KiB
#   --mpirun ARG  passed on to mpirun; may be repeated
#   --cut HOST    switches off this host's link for messages, once FILE of --when has a loss
#   --kill RANK   kills this rank, once FILE of --when has a loss; the others go on
#   --when FILE   the output of moe_gpt, for --cut and --kill: so a rank fails after a step
#   --counters    prints at the end how many bytes each host has sent to the others
#
# Needs root, iproute2 and openmpi-bin. Ends with 77 if one of these is missing, otherwise with the
# exit status of mpirun.
set -eu

hosts=4 ranks=2 rate=1gbit burst=256kb extra='' cut='' kill='' when='' counters=no
while [ $# -gt 0 ]; do
  case $1 in
    --hosts) hosts=$2; shift ;;
    --ranks) ranks=$2; shift ;;
    --rate) rate=$2; shift ;;
    --burst) burst=$2; shift ;;
    --mpirun) extra="$extra $2"; shift ;;
    --cut) cut=$2; shift ;;
    --kill) kill=$2; shift ;;
    --when) when=$2; shift ;;
    --counters) counters=yes ;;
    --help | -h) sed -n '3,21s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) break ;;
  esac
  shift
done

skip() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip 'hosts are network namespaces, which need root'
for program in ip tc; do
  command -v $program >/dev/null || skip "$program is missing (iproute2)"
done
mpirun=$(command -v mpirun.openmpi || command -v mpirun) || skip 'mpirun is missing (openmpi-bin)'
"$mpirun" --version 2>/dev/null | grep -qE 'Open MPI|OpenRTE' || skip "$mpirun is not Open MPI's"

name=fs$$
all=''  # the hosts' names
watcher=''
made=$(mktemp -d "${TMPDIR:-/tmp}/hosts.XXXXXX")
# shellcheck disable=SC2317  # the trap calls it
clean_up() {
  [ -z "$watcher" ] || kill "$watcher" 2>/dev/null || true
  for host in $all ${name}sw; do
    for pid in $(ip netns pids "$host" 2>/dev/null); do kill -9 "$pid" 2>/dev/null || true; done
    ip netns del "$host" 2>/dev/null || true
    rm -rf "/etc/netns/$host"
  done
  rmdir /etc/netns 2>/dev/null || true
  rm -rf "$made"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

host() { echo "${name}h$1"; }  # host NUMBER: its name

join() {  # join HOST LINK BRIDGE NUMBER: gives a host a link that ends at a bridge of the switch
  ip -n "${name}sw" link add "$3p$4" type veth peer name "$2" netns "$1" &&
    ip -n "${name}sw" link set "$3p$4" master "$3" up &&
    ip -n "$1" link set "$2" up
}

slow_down() {  # slow_down NAMESPACE LINK
  [ "$rate" = none ] ||
    { tc -n "$1" qdisc add dev "$2" root handle 1: htb default 1 &&
      tc -n "$1" class add dev "$2" parent 1: classid 1:1 htb rate "$rate" burst "$burst" \
        cburst "$burst"; }
}

make_switch() {
  ip netns add "${name}sw" || return
  for bridge in data ctl; do
    ip -n "${name}sw" link add $bridge type bridge &&
      ip -n "${name}sw" link set $bridge up || return
  done
}

make_host() {  # make_host NUMBER
  h=$(host "$1")
  ip netns add "$h" || return
  all="$all $h"
  ip -n "$h" link set lo up && join "$h" eth0 data "$1" && join "$h" ctl0 ctl "$1" &&
    ip -n "$h" addr add "10.77.0.$(($1 + 1))/24" dev eth0 &&
    ip -n "$h" addr add "10.78.0.$(($1 + 1))/24" dev ctl0 &&
    slow_down "$h" eth0 && slow_down "${name}sw" "datap$1" || return
  list=$list${list:+,}$h:$ranks
  mkdir -p "/etc/netns/$h" || return  # what `ip netns exec` shows as /etc/hosts
  {
    echo '127.0.0.1 localhost'
    n=0
    while [ $n -lt "$hosts" ]; do echo "10.78.0.$((n + 1)) $(host $n)"; n=$((n + 1)); done
  } >"/etc/netns/$h/hosts"
}

make_hosts() {
  make_switch || return
  next=0
  while [ $next -lt "$hosts" ]; do
    make_host $next || return
    next=$((next + 1))
  done
  "$made/agent" "$(host 0)" true
}

# What mpirun takes for ssh: runs a command on a host, which has a folder of its own for temporary
# files.
cat >"$made/agent" <<EOF
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1; shift
TMPDIR=\$(mktemp -d "$made/\$host.XXXXXX")
export TMPDIR
exec ip netns exec "\$host" unshare --uts -- sh -c 'hostname "\$0"; exec sh -c "\$*"' "\$host" "\$@"
EOF
chmod +x "$made/agent"

list=''  # as mpirun has it
make_hosts 2>"$made/why" || skip "no hosts can be made here: $(tail -n 1 "$made/why")"

sent() { ip netns exec "$1" cat /sys/class/net/eth0/statistics/tx_bytes; }

processes_of() {  # processes_of RANK|[0-9]+: of what mpirun has started on the hosts, as a pattern
  for h in $all; do
    for pid in $(ip netns pids "$h"); do
      # zeros end its lines; it may be gone already
      grep -qzxE "OMPI_COMM_WORLD_RANK=$1" "/proc/$pid/environ" 2>/dev/null && echo "$pid"
    done
  done
  true
}
end_all() { for pid in $(ip netns pids "$(host 0)"); do kill -9 "$pid" 2>/dev/null || true; done; }

if [ -n "$cut$kill" ]; then
  (
    while ! grep -qs "loss " "$when"; do sleep 0.05; done
    if [ -n "$cut" ]; then ip -n "$(host "$cut")" link set eth0 down; fi
    if [ -n "$kill" ]; then
      for pid in $(processes_of "$kill"); do kill -9 "$pid" || true; done
    fi
    # an mpirun that is to go on when ranks fail does so when none is left
    while [ -n "$(processes_of '[0-9]+')" ]; do sleep 0.2; done
    end_all
  ) &
  watcher=$!
  extra="$extra --enable-recovery"
fi

# how mpirun starts processes on other hosts, and what it calls shared memory
if "$mpirun" --version | grep -qE '\(?Open( MPI|RTE)\)? 4\.'; then
  shared=vader
  launcher="--mca plm rsh --mca plm_rsh_agent $made/agent --mca plm_rsh_no_tree_spawn 1"
  launcher="$launcher --mca oob_tcp_if_include ctl0"
else
  shared=sm
  launcher="--prtemca plm ssh --prtemca plm_ssh_agent $made/agent"
  launcher="$launcher --prtemca plm_ssh_no_tree_spawn 1 --prtemca prte_if_include ctl0"
fi

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
code=0
# shellcheck disable=SC2016,SC2086  # the shell on the host expands; both hold several arguments
TMPDIR=$made ip netns exec "$(host 0)" unshare --uts -- \
  sh -c 'hostname "$0"; exec "$@"' "$(host 0)" "$mpirun" --host "$list" -np $((hosts * ranks)) \
  --map-by "ppr:$ranks:node" --bind-to none \
  $launcher --mca btl_tcp_if_include eth0 \
  --mca pml ob1 --mca btl "self,$shared,tcp" --mca mpi_yield_when_idle 1 $extra "$@" || code=$?
if [ $counters = yes ]; then
  for h in $all; do echo "$h has sent $(sent "$h") bytes"; done
fi
exit $code
