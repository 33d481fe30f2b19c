"""What pyproject.toml cannot say yet: libraries in C that are built where there is a compiler.

Without one the installation goes on, and PyTorch does all the work; see decision 23.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "pfedfair.networks._kernel",
            sources=["src/pfedfair/networks/kernel.c"],
            depends=["src/pfedfair/networks/kernel.h", "src/pfedfair/networks/bits.h"],
            libraries=["m"],
            extra_compile_args=["-O3", "-g0"],
            optional=True,
        ),
        *(
            Extension(
                f"pfedfair.{folder}._{name}",
                sources=[f"src/pfedfair/{folder}/{name}.c"],
                libraries=["m"],
                extra_compile_args=["-O3", "-g0"],
                optional=True,
            )
            for folder, name in (
                ("algorithms", "lookup"),
                ("algorithms", "ridges"),
                ("data", "unpack"),
            )
        ),
    ]
)
