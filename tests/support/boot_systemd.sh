#!/bin/bash
# Becomes a systemd of its own, with journal and loopback, whose root is an overlay of this host's: what is written there
# is gone with it. To run in new namespaces (tests/support/systemd_box.py):
#   unshare -m -p -f -C -u -n --kill-child bash boot_systemd.sh FOLDER SOURCE PYTHON PACKAGES
# FOLDER: an empty one. SOURCE, PYTHON, PACKAGES: this repository, an interpreter's prefix and its site-packages, which
# are found below /opt/steersman-box there, since the units cannot see into homes.
set -eu
folder=$1 source=$2 python=$3 packages=$4
mount --make-rprivate /
mount -t tmpfs -o size=512m,mode=0755 box "$folder"
root=$folder/root
mkdir -p "$folder/upper" "$folder/work" "$root"
mount -t overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" box "$root"

for one in "source=$source" "python=$python" "packages=$packages"; do
  target=$root/opt/steersman-box/${one%%=*}
  mkdir -p "$target"
  mount --bind "${one#*=}" "$target"
done

# Nothing of this host is started, changed or looked at: no units that somebody enabled, no disks, no kernel settings.
mount -t tmpfs -o mode=0755 box "$root/etc/systemd/system"
for unit in systemd-sysctl systemd-modules-load systemd-binfmt systemd-udevd systemd-udev-trigger systemd-remount-fs \
  systemd-networkd systemd-resolved systemd-timesyncd modprobe@; do
  ln -s /dev/null "$root/etc/systemd/system/$unit.service"
done
cat >"$root/etc/systemd/system/box.target" <<'UNIT'
[Unit]
Requires=basic.target systemd-journald.service
After=basic.target systemd-journald.service
UNIT
: >"$root/etc/fstab"
: >"$root/etc/machine-id"
mkdir -p "$root/etc/systemd/journald.conf.d"
printf '[Journal]\nStorage=volatile\nRateLimitBurst=0\n' >"$root/etc/systemd/journald.conf.d/box.conf"

mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sys "$root/sys"
mount -t cgroup2 cgroup "$root/sys/fs/cgroup"
for place in dev run tmp; do mount -t tmpfs -o mode=0755 box "$root/$place"; done
chmod 1777 "$root/tmp"
for node in null zero full random urandom tty; do cp -a "/dev/$node" "$root/dev/$node"; done
mkdir -m 1777 "$root/dev/shm"
mkdir "$root/dev/pts"
mount -t devpts -o newinstance,ptmxmode=0666 box "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"

# Not chroot: a process in one cannot make a user namespace (PrivateUsers=). Shared: credentials are mounts that arrive.
echo box >"$root/etc/hostname"
mkdir -p "$root/mnt"
cd "$root"
pivot_root . mnt
umount -l /mnt
mount --make-rshared /
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --system --unit=box.target --log-target=journal --show-status=0
