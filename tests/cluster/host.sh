#!/bin/bash
# One pretend machine: the first process of namespaces of its own; it turns into the host's sshd.
#
#   host.sh NUMBER FOLDER PROJECT PYTHON_FOLDER...
#
# FOLDER/root and FOLDER/tmp become the host's /root and /tmp; FOLDER also holds hostkey, hosts and sshd_config.
# /run, /dev/shm and /var/log are its own and empty. So is PROJECT, the folder that the tests run from: code must
# come to a host over the network. The PYTHON_FOLDERs are there on every host, whatever has been hidden around them.
# Everything else is the real machine's, CPUs and memory included.
set -eu
number=$1 folder=$2 project=$3
shift 3

# Hold on to what the next mounts may hide.
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /run/host /run/python
mount --bind "$folder" /run/host
for python in "$@"; do
  mkdir -p "/run/python$python"
  mount --rbind "$python" "/run/python$python"
done

mount --bind /run/host/root /root
mount --bind /run/host/tmp /tmp
mount -t tmpfs tmpfs /dev/shm # Ray's object store
mount -t tmpfs tmpfs /var/log # sshd notes logins there...
touch /var/log/lastlog        # ...and complains to each user where it cannot
if [ -d "$project" ]; then mount -t tmpfs tmpfs "$project"; fi
for python in "$@"; do
  if [ ! -e "$python/bin" ]; then
    mkdir -p "$python"
    mount --rbind "/run/python$python" "$python"
  fi
done

# A name server that refuses at once: an unreachable one costs 5 s a look-up, 10 s and more a `ray start`.
echo nameserver 127.0.0.1 >/run/resolv.conf
resolver=$(readlink -m /etc/resolv.conf)
case $resolver in /run/*) mkdir -p "$(dirname "$resolver")" && touch "$resolver" ;; esac
if [ -e "$resolver" ]; then mount --bind /run/resolv.conf "$resolver"; fi
mount --bind /run/host/hosts /etc/hosts
# sshd turns away an account that is locked, as root's is on many images.
sed 's/^root:[^:]*/root:*/' /etc/shadow >/run/shadow
mount --bind /run/shadow /etc/shadow

hostname "host$number"
ip link set lo up
until ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
ip address add "10.77.0.$((10 + number))/24" dev eth0
ip link set eth0 up
ip route add default via 10.77.0.1 # without a default route Ray settles for 127.0.0.1 as its address

cd /
exec "$(command -v sshd || echo /usr/sbin/sshd)" -D -e -f /run/host/sshd_config
