#!/bin/sh
# Process 1 of the user-mode Linux guest. The host's file system is the root, read-only; the run's folder is the one place of the
# host that the guest can write, at /run/host. The kernel hands ROLLOUTS_* over from its command line.
PATH=/run/programs:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mkdir /run/host /run/tmp /run/programs
mount -t hostfs -o "$ROLLOUTS_RUN" none /run/host

# The guest's kernel has no tables for iptables over nftables; the older iptables works. No IPv6: half the work for kube-proxy.
for name in iptables iptables-save iptables-restore; do ln -s /usr/sbin/xtables-legacy-multi "/run/programs/$name"; done
for name in ip6tables ip6tables-save ip6tables-restore; do ln -s /bin/false "/run/programs/$name"; done

for module in $(echo "$ROLLOUTS_MODULES" | tr , " "); do
  modprobe -d /run/host "$module" || echo "init: no module $module"
done
# iptables asks for more with every call, for what has other names or is built in; each question would start a modprobe in vain.
echo >/proc/sys/kernel/modprobe

cd "$ROLLOUTS_CODE" || exit 1
PYTHONPATH=$ROLLOUTS_CODE PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/run TMPDIR=/run/tmp \
  "$ROLLOUTS_PYTHON" -m tests.ipvs.guest
echo "init: the guest's program ended with status $? and without switching off"
echo o >/proc/sysrq-trigger
sleep 60
