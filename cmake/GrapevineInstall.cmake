# cmake --install: the program, the libraries, the headers and a package that find_package(Grapevine) finds.
