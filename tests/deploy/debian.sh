#!/bin/sh
# Installs, upgrades, removes and purges the Debian package $1 on a copy of this system that keeps no change.
# Call it as root in new namespaces: unshare --mount --net --pid --fork. Exits with 77 where the kernel has
# no overlay file system.
set -eu
package=$(realpath "$1")
place=$(mktemp -d)
mount -t tmpfs tmpfs "$place"
mkdir "$place/upper" "$place/work" "$place/system"
mount -t overlay overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" "$place/system" || exit 77
ip link set lo up
mount -t proc proc "$place/system/proc"
mount --bind /dev "$place/system/dev"
cp "$package" "$place/system/mnt/toolcrib.deb"
chroot "$place/system" sh -eu <<'INSIDE'
export DEBIAN_FRONTEND=noninteractive TMPDIR=/tmp
dpkg --remove --force-all toolcrib >/dev/null 2>&1 || true
rm -rf /var/lib/toolcrib
dpkg --install /mnt/toolcrib.deb >/mnt/log 2>&1 || { cat /mnt/log >&2; exit 1; }
[ "$(stat -c %U:%a /var/lib/toolcrib)" = toolcrib:700 ]

# The service, as its unit starts it.
export TOOLCRIB_CONFIG=/etc/toolcrib/toolcrib.toml TOOLCRIB_DATA_DIR=/var/lib/toolcrib
setpriv --reuid toolcrib --regid toolcrib --init-groups toolcrib serve >/mnt/log 2>&1 &
server=$!
tries=0
until [ "$(toolcrib health 2>/dev/null)" = ready ]; do
    tries=$((tries + 1))
    if [ "$tries" -ge 300 ] || ! kill -0 "$server"; then cat /mnt/log >&2; exit 1; fi
    sleep 0.1
done
kill -TERM "$server"
wait "$server"

echo '# changed' >>/etc/toolcrib/toolcrib.toml
dpkg --install /mnt/toolcrib.deb >/mnt/log 2>&1
grep -q '^# changed' /etc/toolcrib/toolcrib.toml
dpkg --remove toolcrib >/mnt/log 2>&1
[ -e /etc/toolcrib/toolcrib.toml ] && [ -e /var/lib/toolcrib/toolcrib.db ]
dpkg --purge toolcrib >/mnt/log 2>&1
[ ! -e /etc/toolcrib ] && [ -e /var/lib/toolcrib/toolcrib.db ]
grep -q 'contains the record' /mnt/log
INSIDE
echo "Debian package: installed, served, upgraded, removed and purged"
