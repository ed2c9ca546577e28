"""From photos to what is said of them: views, evidence, predictions, photos of none of the classes."""
