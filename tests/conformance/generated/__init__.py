"""Random requests, legal and illegal, sent to a real API server and to the embedded hub; everything told is compared."""
