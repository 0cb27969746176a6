// SPDX-License-Identifier: Apache-2.0
// CPython from its shared library, as an embedding program and conda-like builds have it: `python` in all but
// the link.
#include <Python.h>

int main(int argc, char** argv) {
  return Py_BytesMain(argc, argv);
}
