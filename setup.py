"""What pyproject.toml cannot say yet: libraries in C that are built where there is a compiler.

Without one the installation goes on, and PyTorch does all the work; see decision 23.
"""

from setuptools import Extension, setup

FOLDER = "src/pfedfair/_native"

setup(
    ext_modules=[
        Extension(
            f"pfedfair._native._{name}",
            sources=[f"{FOLDER}/{name}.c"],
            depends=[f"{FOLDER}/{header}" for header in headers],
            libraries=["m"],
            extra_compile_args=["-O3", "-g0"],
            optional=True,
        )
        for name, headers in (
            ("kernel", ("kernel.h", "bits.h")),
            ("lookup", ()),
        )
    ]
)
