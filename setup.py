"""What pyproject.toml cannot say yet: libraries in C that are built where there is a compiler.

Without one the installation goes on, and PyTorch does all the work; see decision 23. The libraries
are called through ctypes and know no Python: a wheel with them is for any Python 3 on its platform.
"""

import os
import sys

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

FOLDER = "src/pfedfair/_native"
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
FLAGS = SANITIZE if os.environ.get("PFEDFAIR_SANITIZE") else ["-O3", "-g0"]  # see `make asan`
# Checks of the stack and of copies, and no table of addresses that can be written to. GCC and Clang
# on Linux know them; where they are refused the libraries are built without.
HARDENED = (
    ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"],
    ["-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"],
)


class Library(build_ext):
    """Libraries named after no Python version."""

    def get_ext_filename(self, ext_name: str) -> str:
        return f"{ext_name.replace('.', os.sep)}.{'pyd' if sys.platform == 'win32' else 'so'}"

    def build_extension(self, ext: Extension) -> None:
        usual = ext.extra_compile_args, ext.extra_link_args
        if sys.platform == "linux" and FLAGS is not SANITIZE:
            both = zip(usual, HARDENED, strict=True)
            ext.extra_compile_args, ext.extra_link_args = ([*old, *more] for old, more in both)
            try:
                return super().build_extension(ext)
            except (CompileError, LinkError):
                ext.extra_compile_args, ext.extra_link_args = usual
        super().build_extension(ext)


class Wheel(bdist_wheel):
    """A wheel for any Python 3 on this platform."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    cmdclass={"build_ext": Library, "bdist_wheel": Wheel},
    ext_modules=[
        Extension(
            f"pfedfair._native._{name}",
            sources=[f"{FOLDER}/{name}.c"],
            depends=[f"{FOLDER}/{header}" for header in headers],
            libraries=["m"],
            extra_compile_args=FLAGS,
            extra_link_args=[flag for flag in FLAGS if flag.startswith("-fsanitize")],
            optional=True,
        )
        for name, headers in (
            ("kernel", ("kernel.h",)),
            ("lookup", ()),
        )
    ],
)
