#!/bin/bash
# A switch and the pretend machines on it: host0 = 10.77.0.10, host1 = 10.77.0.11, ...
#
#   network.sh FOLDER LAST PROJECT PYTHON_FOLDER...
#
# Run as the first process of a network, process and mount namespace of its own: no interface appears on the real
# machine, and killing this process kills every process of every host, which the kernel sees to.
# FOLDER/host0 ... FOLDER/hostLAST must exist; host.sh says what they hold.
set -eu
folder=$1 last=$2
shift 2
here=$(dirname "$0")

# Forwarding, with no route to forward to: what goes to the outside is answered "unreachable" at once, not dropped.
ip link set lo up
ip link add switch type bridge
ip link set switch up
ip address add 10.77.0.1/24 dev switch
echo 1 >/proc/sys/net/ipv4/ip_forward

for number in $(seq 0 "$last"); do
  unshare --net --mount --pid --uts --ipc --fork --mount-proc \
    bash "$here/host.sh" "$number" "$folder/host$number" "$@" >"$folder/host$number.log" 2>&1 &
  host=$!
  until [ "$(readlink /proc/$host/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
  ip link add "cable$number" type veth peer name eth0 netns "$host"
  ip link set "cable$number" master switch up
done
wait
