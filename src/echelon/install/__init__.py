"""What is put into a cluster so that Echelon runs there: definitions, rights, policies, Deployments. No I/O."""
