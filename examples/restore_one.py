"""Restore one photo and look at the faces: .venv/bin/python examples/restore_one.py [photo]."""

import sys
from pathlib import Path

from gpen_core import RestoreOptions, Restorer

photo = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "group.jpg"
result = Restorer().restore(photo, RestoreOptions(scale=2))
print(result.summary())
for face in result.faces:
    print(face.index, [round(value) for value in face.face.box], face.decision, face.reason)
result.save("restored.png")
# Another strength, or only some of the faces, needs no second run of the network.
result.recompose(strength=0.5, faces=[0]).save("restored-half.png")
