"""Three graphs on the virtual clock: how many exchanges 32 ranks need to agree, and a plot of it.

    python examples/python/compare_graphs.py [FILE.png]

The package finds the program by $GRAPEVINE, then PATH; the plot needs matplotlib. It prints:

  ring          1 / lambda_2 = 52.04, 1812 exchanges
  torus:4x8     1 / lambda_2 =  6.83,  760 exchanges
  exponential   1 / lambda_2 =  2.50,  464 exchanges
"""

import sys

import grapevine


def main():
    axes = None
    for spec in ("ring", "torus:4x8", "exponential"):
        graph = grapevine.topology(spec, ranks=32)
        run = grapevine.simulate(topology=spec, ranks=32, target=1e-3, sample_seconds=1)
        print(
            f"{spec:12}  1 / lambda_2 = {1 / graph['eigenvalues'][1]:5.2f}, "
            f"{run['exchanges']:4d} exchanges"
        )
        if len(sys.argv) > 1:
            axes = run.plot(axes)
    if axes is not None:
        axes.legend()
        axes.figure.savefig(sys.argv[1])


if __name__ == "__main__":
    main()
