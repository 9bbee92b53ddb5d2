#!/bin/sh
# Runs the files of the image in $1 as a container runtime does: with a read-only root, an empty volume, an
# unprivileged user and a network of its own. Call it in new namespaces: unshare --mount --net --pid --fork.
set -eu
root=$1
ip link set lo up
log=$(mktemp)
trap 'rm -f "$log"' EXIT
mount --bind "$root" "$root"
mount -o remount,ro,bind "$root"
mount -t tmpfs -o uid=65532,gid=65532,mode=700 tmpfs "$root/var/lib"
mkdir "$root/var/lib/toolcrib"
chown 65532:65532 "$root/var/lib/toolcrib"
mount -t proc proc "$root/proc"
export HOME=/var/lib/toolcrib TMPDIR=/var/lib/toolcrib
export TOOLCRIB_CONFIG=/etc/toolcrib/toolcrib.toml TOOLCRIB_DATA_DIR=/var/lib/toolcrib
cd /

toolcrib() { chroot --userspec=65532:65532 "$root" /usr/bin/toolcrib "$@"; }

# Waits until a command succeeds.
await() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ "$tries" -ge 300 ] || ! kill -0 "$server"; then cat "$log" >&2; exit 1; fi
        sleep 0.1
    done
}

is_ready() { grep -q "^listening on" "$log" && toolcrib health; }
adds() { [ "$(toolcrib call demo__add a=1 b=2)" = 3 ]; }

# Starts a server with the given options, and waits until its own check succeeds.
serve() {
    chroot --userspec=65532:65532 "$root" /usr/bin/toolcrib serve "$@" >"$log" 2>&1 &
    server=$!
    await is_ready
}

stop() {
    kill -TERM "$server"
    wait "$server"
}

serve
[ "$(toolcrib health)" = ready ]
[ "$(toolcrib health --live)" = ok ]
toolcrib keys create --quiet --name first --principal admin --scope '*' >/dev/null
if touch "$root/file" 2>/dev/null; then echo "the root can be written" >&2; exit 1; fi
stop
if toolcrib health >/dev/null 2>&1; then echo "a stopped server is healthy" >&2; exit 1; fi

# The demo has a child process and a confined command.
TOOLCRIB_DATA_DIR=/var/lib/toolcrib/demo
serve --demo
export TOOLCRIB_URL=http://127.0.0.1:8808
TOOLCRIB_KEY=$(toolcrib demo keys admin)
export TOOLCRIB_KEY
await adds
stop
echo "container: ok"
