"""C identifiers for the names that a net uses."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RESERVED = frozenset(
    # C and C++ keywords, then what system headers define as macros or types.
    """
    alignas alignof and and_eq asm atomic auto bitand bitor bool break case catch char char16_t
    char32_t char8_t class co_await co_return co_yield compl concept const const_cast consteval
    constexpr constinit continue decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if import inline int long module mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast
    struct switch template this thread_local throw true try typedef typeid typename typeof union
    unsigned using virtual void volatile wchar_t while xor xor_eq
    NULL linux unix int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t
    """.split()
)


SYSTEM_LIBRARIES = frozenset(
    # The C library and its parts, then what compilers link programs with unasked, or for a flag.
    """
    BrokenLocale anl c c_malloc_debug crypt dl m memusage mvec nsl nss_compat nss_dns nss_files
    pcprofile pthread resolv rt thread_db util xnet
    asan atomic clang_rt gcc gcc_eh gcc_s gfortran gomp hwasan iomp5 itm lsan omp omp5 quadmath
    ssp ssp_nonshared tsan ubsan unwind
    """.split()
)
"""NAME of each libNAME that a program may need, and would find another one in its place."""

SYSTEM_HEADERS = frozenset(
    """
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign
    stdarg stdatomic stdbool stdbit stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath
    threads time uchar wchar wctype
    dlfcn fcntl pthread sched semaphore unistd
    rnncc
    """.split()
)
"""NAME of each NAME.h of standard C, of POSIX where others include it, and of rnncc itself."""


def c_name(name: str) -> str:
    """The C identifier of one name: what C does not allow becomes `_`."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    if text[0].isdigit():
        text = "_" + text
    return text + "_" if text in _RESERVED else text


def c_names(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """C identifiers that differ from each other and from those taken.

    Where two would be equal, the later one gets `_2`, `_3` and so on.
    """
    used, result = set(taken), list[str]()
    for name in names:
        plain = identifier = c_name(name)
        number = 2
        while identifier in used:
            identifier = f"{plain}_{number}"
            number += 1
        used.add(identifier)
        result.append(identifier)
    return result
