#!/usr/bin/env bash
# nodes.sh: several "nodes" with several network cards each, on one machine.
#
#   nodes.sh run CMD...          makes the nodes, then runs CMD, which may call the others; nothing
#                                is left when it ends, however it ends; needs no root
#   nodes.sh exec NODE CMD...    runs CMD in node NODE (a number)
#   nodes.sh all CMD...          runs CMD in every node at once; its number is in NODES_OWN
#   nodes.sh rsh NAME CMD...     exec by host name (node0, node1, ...), as mpirun calls ssh
#   nodes.sh cut NODE CARD       the cable is out: no carrier; CARD is rail0, rail1, ..., or eth0
#   nodes.sh mute NODE CARD      the cable looks well, but nothing passes
#   nodes.sh heal NODE CARD      undoes both
#
# A node is a network namespace with a host name, /dev/shm, IPC objects and /etc/hosts of its own.
# Cards of one name hang on one switch, a bridge in a further namespace: the machine's own network
# is never touched, and rails share nothing but the cores. A token bucket at each end of a cable
# lets a card send and receive NODES_MBIT at the same time. eth0 is for joining and control.
#
#            node 0                   switch k                    node 1
#   10.<100+k>.0.1 rail<k> --bucket-- [bridge] --bucket-- rail<k> 10.<100+k>.0.2
#   10.99.0.1      eth0    --bucket-- [bridge] --bucket-- eth0    10.99.0.2
#
# Read by `run`: NODES_COUNT (2), NODES_RAILS (2: cards of a node, without eth0), NODES_MBIT (800:
# rate of a rail, each way, in 10^6 bit/s).
#
# Needs iproute2 and a kernel with veth, bridge and tbf. Exit status 77: this machine cannot do it,
# and a line says why.
set -euo pipefail

STATE=/run/nodes
SELF=$(readlink -f "${BASH_SOURCE[0]}")
SWITCHES=switches
MTU=9000
ETH_MBIT=1000
# The bucket holds the largest packet that the kernel hands down at once: to cut it costs more time
# of the cores than all else. So the first 64 KiB after a pause pass at once.
PACKET=65536
# A queue that drops makes TCP wait 200 ms now and then, which no fabric of a cluster does.
QUEUE=33554432

die() {
  echo "nodes.sh: $*" >&2
  exit 1
}

cannot() {
  echo "nodes.sh: no nodes on this machine: $*" >&2
  exit 77
}

limit() { # namespace, device, rate
  ip netns exec "$1" tc qdisc replace dev "$2" root tbf \
    rate "$3mbit" burst $((PACKET + 4500)) limit "$QUEUE" || cannot "the kernel has no tbf"
}

plug() { # node, card, third byte of the addresses, rate, MTU
  local end=$2-n$1
  ip link add "$2" netns "n$1" mtu "$5" type veth peer name "$end" netns "$SWITCHES" ||
    cannot "the kernel has no veth"
  # Both ends have the same MTU, or large packets vanish.
  ip -n "$SWITCHES" link set "$end" mtu "$5" gso_max_size "$PACKET" master "sw-$2" up
  ip -n "n$1" link set "$2" gso_max_size "$PACKET"
  ip -n "n$1" addr add "10.$3.0.$(($1 + 1))/24" dev "$2"
  ip -n "n$1" link set "$2" up
  limit "n$1" "$2" "$4"
  limit "$SWITCHES" "$end" "$4"
}

add_switch() { # card, MTU
  ip -n "$SWITCHES" link add "sw-$1" type bridge forward_delay 0 stp_state 0 mcast_snooping 0 ||
    cannot "the kernel has no bridge"
  ip -n "$SWITCHES" link set "sw-$1" mtu "$2" up
}

up() {
  local count=${NODES_COUNT:-2} rails=${NODES_RAILS:-2} mbit=${NODES_MBIT:-800} node k
  mkdir -p "$STATE"
  echo "$count" >"$STATE/count"
  echo "127.0.0.1 localhost" >"$STATE/hosts"
  ip netns add "$SWITCHES" 2>/dev/null || cannot "network namespaces are not allowed here"
  add_switch eth0 1500
  for ((k = 0; k < rails; ++k)); do
    add_switch "rail$k" "$MTU"
  done
  for ((node = 0; node < count; ++node)); do
    ip netns add "n$node"
    ip -n "n$node" link set lo up
    echo "10.99.0.$((node + 1)) node$node" >>"$STATE/hosts"
    plug "$node" eth0 99 "$ETH_MBIT" 1500
    for ((k = 0; k < rails; ++k)); do
      plug "$node" "rail$k" $((100 + k)) "$mbit" "$MTU"
    done
  done
}

# In mount, network and process namespaces of its own: the last process that ends takes all with it.
# Process ids begin at 1 in each run, and Open MPI names its folders of temporary files by host and
# process id: two runs at once, or one that was killed before, would meet in a shared folder.
run() {
  [[ -n $(type -P ip) && -n $(type -P tc) ]] || cannot "ip and tc (iproute2) are not installed"
  local user=()
  [[ $(id -u) == 0 ]] || user=(--user --map-root-user)
  local spaces=(unshare "${user[@]}" --mount --net --pid --fork --kill-child --mount-proc
    --propagation private --)
  "${spaces[@]}" true 2>/dev/null || cannot "namespaces are not allowed here"
  # shellcheck disable=SC2016
  exec "${spaces[@]}" bash -c '
    mount -t tmpfs tmpfs /run && mkdir /run/netns /run/tmp && export TMPDIR=/run/tmp &&
    ip link set lo up && "$0" up && exec "$@"' \
    "$SELF" "$@"
}

in_node() { # node, command
  export NODES_OWN=$1
  # shellcheck disable=SC2016
  exec ip netns exec "n$1" unshare --uts --ipc --mount --propagation private -- sh -c '
    hostname "node$NODES_OWN" && mount -t tmpfs -o size=256m tmpfs /dev/shm &&
    mount --bind "$0" /etc/hosts && exec "$@"' "$STATE/hosts" "${@:2}"
}

in_all_nodes() {
  local node pid pids=() status=0
  for ((node = 0; node < $(<"$STATE/count"); ++node)); do
    (in_node "$node" "$@") &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || status=$?
  done
  return "$status"
}

port_state() { # node, card, 0: nothing passes, 3: all does
  ip netns exec "$SWITCHES" bridge link set dev "$2-n$1" state "$3"
}

COMMAND=${1:-help}
shift || true
if [[ $COMMAND != run && $COMMAND != up && $COMMAND != help && ! -r $STATE/count ]]; then
  die "there are no nodes; call me in '$SELF run CMD...'"
fi
case $COMMAND in
  up) up ;;
  run) run "$@" ;;
  exec) in_node "$@" ;;
  rsh) in_node "${1#node}" sh -c "${*:2}" ;; # as a remote shell does: one text for a shell
  all) in_all_nodes "$@" ;;
  cut) ip -n "$SWITCHES" link set "$2-n$1" down ;;
  mute) port_state "$1" "$2" 0 ;;
  heal)
    ip -n "$SWITCHES" link set "$2-n$1" up
    port_state "$1" "$2" 3
    ;;
  *)
    sed -n '2,/^set -/p' "$SELF" | grep '^#' | sed 's/^# \{0,1\}//'
    exit 2
    ;;
esac
