#!/usr/bin/env bash
# carry.sh DIR: what gpu.sh needs and a machine without network may lack, as 5 MB of plain Python files: the parts of
# ModelScope that the benchmarks compare with, the embedded detector, platformdirs. Run it where requirements-dev.txt is
# installed.
#
# The rest must be there already: torch, torchvision, numpy, opencv (headless will do), pillow, safetensors, onnxruntime.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: carry.sh DIR" >&2; exit 2; }
PYTHON=${PYTHON:-python3}
mkdir -p "$1"
target=$(cd "$1" && pwd)

package() { # where a package lies, without importing it
    "$PYTHON" -c 'import importlib.util as u, sys; print(u.find_spec(sys.argv[1]).submodule_search_locations[0])' "$1"
}

# ModelScope's own __init__ files load far more than the files copied here, so that they are replaced by empty ones.
modelscope=$(package modelscope)
enhancement=models/cv/image_portrait_enhancement
rm -rf "$target/modelscope"
mkdir -p "$target/modelscope/$enhancement" "$target/modelscope/models/cv/face_generation"
cp "$modelscope/$enhancement/gpen.py" "$target/modelscope/$enhancement/"
cp -r "$modelscope/$enhancement/retinaface" "$target/modelscope/$enhancement/"
cp -r "$modelscope/models/cv/face_generation/op" "$target/modelscope/models/cv/face_generation/"
for folder in . models models/cv models/cv/face_generation "$enhancement"; do
    touch "$target/modelscope/$folder/__init__.py"
done
cp "$modelscope"/../modelscope-*.dist-info/licenses/LICENSE "$target/modelscope/LICENSE"

for name in retinaface platformdirs; do
    rm -rf "${target:?}/$name"
    cp -r "$(package "$name")" "$target/"
done
find "$target" -name __pycache__ -type d -prune -exec rm -rf {} +
du -sh "$target"
