#!/bin/bash
# Takes the Dockerfile's steps in a bare Debian of its own, without a container engine: install, health, command, page.
# Needs root, debootstrap and the network.  usage: container/prove.sh [FOLDER]
#   BIND  folders of this machine that are seen there too, for wheels kept on disk
set -euo pipefail
cd "$(dirname "$0")/.."
root=${1:-$(mktemp -d /tmp/gpen-root.XXXXXX)}
cleanup() {
    if [ -n "${page-}" ]; then kill "$page" 2>/dev/null || true; wait "$page" 2>/dev/null || true; fi
    for folder in proc dev/shm ${BIND-}; do umount "$root/$folder" 2>/dev/null || true; done
}
trap cleanup EXIT
# Without what is only mounted there.
size_mb() { du -sxm ${BIND+$(printf -- "--exclude=$root/%s " $BIND)} --exclude="$root/proc" --exclude="$root/dev/shm" "$root" | cut -f1; }
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"; }
as_gpen() { inside setpriv --reuid=10001 --regid=10001 --clear-groups /usr/bin/env HOME=/home/gpen \
    GPEN_CACHE=/data/weights GPEN_WEIGHTS_DIR=/opt/gpen/weights "$@"; }

[ -x "$root/bin/sh" ] || debootstrap --variant=minbase bookworm "$root" http://deb.debian.org/debian >/dev/null
mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm"
mount -t tmpfs tmpfs "$root/dev/shm"
for folder in ${BIND-}; do mkdir -p "$root/$folder"; mount --bind "/$folder" "$root/$folder"; done
cp /etc/resolv.conf "$root/etc/resolv.conf"
echo "127.0.0.1 localhost" > "$root/etc/hosts"  # as every container engine does
for file in ${COPY-}; do mkdir -p "$(dirname "$root/$file")"; cp -rL "/$file" "$root/$file"; done

echo "== install"
before=$(size_mb)
mkdir -p "$root/opt/gpen/src"
tar -c --exclude-vcs --exclude=__pycache__ --exclude=examples/originals LICENSE README.md app.py container examples \
    gpen_core inference_gpen.py page pyproject.toml requirements.txt requirements-onnx.txt | tar -x -C "$root/opt/gpen/src"
inside DEVICE="${DEVICE-cpu}" ${TORCH_INDEX+TORCH_INDEX="$TORCH_INDEX"} ${PIP_CERT+PIP_CERT="$PIP_CERT"} \
    sh /opt/gpen/src/container/install.sh
echo "size: $(size_mb) MB, of which Debian $before MB"

echo "== the command, not as root"
cp examples/group.jpg "$root/data/photos/"
as_gpen sh /opt/gpen/src/container/entrypoint.sh -i group.jpg -o restored.png
test -s "$root/data/photos/restored.png"
as_gpen sh -c 'test "$(id -u)" = 10001 && ! touch /opt/gpen/src/x 2>/dev/null'

echo "== the page"
as_gpen sh /opt/gpen/src/container/entrypoint.sh &
page=$!
for second in $(seq 60); do
    if as_gpen /opt/gpen/venv/bin/python /opt/gpen/src/container/healthy.py 2>/dev/null; then
        echo "healthy after $second s"
        exit 0
    fi
    sleep 1
done
echo "the page did not come up within 60 s" >&2
exit 1
