"""calibration-monitor: does a classifier still mean what its confidence scores say?"""
