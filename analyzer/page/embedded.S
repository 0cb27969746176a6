// SPDX-License-Identifier: Apache-2.0
// The page in the program itself: a copied gpuwatch needs no file next to it.
    .section .rodata
    .global gpuwatch_page_begin, gpuwatch_page_end
gpuwatch_page_begin:
    .incbin "page.html"
gpuwatch_page_end:
    .section .note.GNU-stack, "", @progbits
