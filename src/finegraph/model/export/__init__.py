"""A trained classifier as one file that needs no finegraph: ONNX, or a program of `torch.export`.

Both take uint8 images and hold the normalisation, the network or networks, the temperature and the exact posterior, so
the file gives the answers of `PhotoClassifier`, with evidence if there is any. `export_check.py` compares
them on photos. Nothing of ONNX is imported before it is asked for.
"""
