"""How the starter model is trained: `python -m training.train --data FOLDER --config training/starter256.yaml`."""
