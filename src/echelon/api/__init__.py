"""WHAT travels: frozen typed objects, names, kinds and CRDs. No I/O."""
