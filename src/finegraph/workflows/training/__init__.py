"""The steps of `finegraph train`: data, tuning of the head or of the whole network, validation, calibration, report."""
