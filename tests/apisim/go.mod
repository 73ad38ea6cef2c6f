module mvproxy/tests/apisim

go 1.19
