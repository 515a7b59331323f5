#!/bin/sh
# Sets up /opt/gpen on a bare Debian: the project's files must be in /opt/gpen/src. Run by the Dockerfile, and by
# container/prove.sh in a root of its own.
#   DEVICE       cpu or cuda: which build of PyTorch
#   TORCH_INDEX  where it comes from; empty takes pip's own index
set -eu
: "${DEVICE:=cpu}"
case "$DEVICE" in
cpu) default_index=https://download.pytorch.org/whl/cpu ;;
cuda) default_index=https://download.pytorch.org/whl/cu126 ;;
*) echo "DEVICE is '$DEVICE'; choose cpu or cuda." >&2; exit 2 ;;
esac
index=${TORCH_INDEX-$default_index}

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# OpenCV draws on libGL and glib, torch.compile is left out: it would need a compiler.
apt-get install -y -qq --no-install-recommends python3 python3-venv ca-certificates libgl1 libglib2.0-0 >/dev/null
rm -rf /var/lib/apt/lists/*

python3 -m venv /opt/gpen/venv
pip() { /opt/gpen/venv/bin/python -m pip "$@" --no-cache-dir --disable-pip-version-check -q; }
pip install ${index:+--index-url "$index"} torch torchvision
pip install -r /opt/gpen/src/requirements.txt
pip install --no-deps /opt/gpen/src

# Not root; weights and results go to /data, which belongs to the same user.
id gpen >/dev/null 2>&1 || useradd --uid 10001 --create-home gpen
mkdir -p /data/weights /data/photos
chown -R gpen:gpen /data
