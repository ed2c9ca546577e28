"""From photos to predictions: views, evidence, predictions, photos of none of the classes."""
