module echelon.real/certs

go 1.25
