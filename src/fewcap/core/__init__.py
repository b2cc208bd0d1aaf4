"""What every stage stands on: types, configuration, the artefact store, progress, devices."""
