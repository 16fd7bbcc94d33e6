"""C identifiers for the names that a net uses, names of libraries, and what users may mean."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Collection, Iterable

_KEYWORDS = frozenset(
    # C to C23, C++ to C++26, alternative tokens, and GNU's own.
    """
    alignas alignof and and_eq asm atomic auto bitand bitor bool break case catch char char16_t
    char32_t char8_t class co_await co_return co_yield compl concept const const_cast consteval
    constexpr constinit continue contract_assert decltype default delete do double dynamic_cast else
    enum explicit export extern false float for friend goto if import inline int long module mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public reflexpr
    register reinterpret_cast requires restrict return short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true try typedef typeid typename
    typeof typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq
    """.split()
)
_MACROS = frozenset(
    # Of C's headers, of POSIX's that rnncc_pool.h includes, of compilers, of Windows; and types.
    """
    BUFSIZ BYTE_ORDER CHAR_BIT CLOCKS_PER_SEC CSIGNAL F_LOCK F_OK F_TEST F_TLOCK F_ULOCK FD_SETSIZE
    I INFINITY L_INCR L_SET L_XTND L_ctermid L_cuserid L_tmpnam LONG_BIT MAX_CANON MAX_INPUT
    MAXFLOAT MINSIGSTKSZ NAN NDEBUG NFDBITS NGREG NSIG NULL NZERO ONCE_FLAG_INIT P_tmpdir PIPE_BUF
    R_OK TSS_DTOR_ITERATIONS W_OK WCONTINUED WEOF WEXITED WNOHANG WNOWAIT WORD_BIT WSTOPPED
    WUNTRACED X_OK
    assert bool complex errno imaginary kill_dependency math_errhandling max_align_t noreturn
    nullptr_t offsetof ptrdiff_t rsize_t sa_handler sa_sigaction sched_priority setjmp
    sigev_notify_attributes sigev_notify_function size_t ssize_t stderr stdin stdout unreachable
    va_arg va_copy va_end va_start
    PPC hpux hppa i386 linux m68k mips powerpc sgi sparc sun ultrix unix vax
    CALLBACK CONST DELETE FALSE FAR IN NEAR OPTIONAL OUT TRUE VOID cdecl far huge hyper interface
    max min near pascal small
    """.split()
)
_FAMILIES = re.compile(
    # What the standards reserve by its form: limits, printf's codes, errors, signals and so on.
    r"""
    (?!\w*_$)
    ( u?int\w*_t
    | [A-Z]\w*_(MAX|MIN|WIDTH|DIG|ENDIAN|FILENO|LOCK_FREE) | U?INT\w+_C | NL_[A-Z]+
    | E[A-Z0-9]+ | SIG[A-Z]+\d? | (PRI|SCN)[a-zX]\w+ | (HUGE_VAL|SNAN)\w*
    | M_(1_PI|2_PI|2_SQRTPI|E|LN|LOG|PI|SQRT)\w*
    | (ADJ|AIO|ATOMIC|BUS|CLD|CLOCK|CLONE|CLOSE|CPU|DBL|EXIT|FE|FLT|FP|FPE|ILL|LC|LDBL|MATH|MOD|
       POLL|PTHREAD|REG|RENAME|RNNCC|SA|SCHED|SEEK|SEGV|SI|SIG|SIGEV|SS|STA|TIME|TIMER|TRAP)_[A-Z0-9]\w*
    | (rnncc|si)_\w+ )
    """,
    re.VERBOSE | re.ASCII,
)
_RESERVED_FORM = re.compile(r"_[_A-Z]")
"""How names begin that C and C++ keep for compilers and their headers."""
_OURS = frozenset({"rnncc", "rnncc_pool", "rnncc_runtime"})
"""Names of rnncc's own headers and modules."""


def identifier(name: str) -> str:
    """A name in the letters of C: what is no letter, digit or `_` becomes `_`."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    return f"_{text}" if text[0].isdigit() else text


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
    """The C identifier of one name, none that C, C++ or a header gives a meaning."""
    text = identifier(name)
    if _RESERVED_FORM.match(text):
        text = f"x{text}"
    return f"{text}_" if _has_meaning(text) else text


def c_names(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """C identifiers that differ from each other and from those taken.

    Where two would be equal, the later one gets `_2`, `_3` and so on.
    """
    used, result = set(taken), list[str]()
    for name in names:
        plain = chosen = c_name(name)
        number = 2
        while chosen in used:
            chosen = c_name(f"{plain}_{number}")
            number += 1
        used.add(chosen)
        result.append(chosen)
    return result


def _has_meaning(text: str) -> bool:
    return text in _KEYWORDS or text in _MACROS or _FAMILIES.fullmatch(text) is not None


def in_comment(name: str) -> str:
    """A blob's name as it may stand in a comment of C or JavaScript, or in a Python docstring."""
    # Neither `*/` nor a trigraph nor a quote may come up.
    return re.sub(r"[^\w/.:@+-]", lambda match: rf"\x{ord(match[0]):02x}", name, flags=re.ASCII)


MAX_LIBRARY_NAME = 200
"""Characters of a library's name: names of files, which say more than it, have 255 at most."""


def library_name(text: str) -> str:
    """A name for a library made of any text; itself where `bad_library_name` finds no fault."""
    name = identifier(text)
    if _RESERVED_FORM.match(name):
        name = f"x{name}"
    name = name[:MAX_LIBRARY_NAME]
    return f"{name}_" if bad_library_name(name) or hides_module(name) else name


def bad_library_name(name: str) -> str:
    """What is wrong with the name of a library, which its functions' names begin with; or ""."""
    if identifier(name) != name:
        return "is not a C identifier"
    if _RESERVED_FORM.match(name):
        return "is of a form that C and C++ reserve"
    if len(name) > MAX_LIBRARY_NAME:
        return f"has {len(name)} characters, at most {MAX_LIBRARY_NAME}"
    if name in _KEYWORDS or keyword.iskeyword(name):
        return "is a keyword of C, C++ or Python"
    return "is a name of rnncc's own files" if name in _OURS else ""


def did_you_mean(wrong: str, names: Iterable[str], otherwise: str) -> str:
    """A hint with up to three names like a wrong one: those that hold it, else those near it.

    Args:
        otherwise: what else to do; the whole hint where no name is like it.
    """
    from difflib import get_close_matches

    of = {name.lower(): name for name in names}
    word = wrong[:40].lower()
    holding = [name for name in of if len(word) > 2 and word in name]
    near = sorted(holding, key=len)[:3] or get_close_matches(word, of, 3)
    shown = [of[name] for name in near]
    return f"did you mean {' or '.join(shown)}? {otherwise}" if shown else otherwise


def hides_module(name: str) -> bool:
    """Whether Python would find `NAME.py` in place of a module that every wrapper needs."""
    modules: Collection[str] = sys.stdlib_module_names
    return name in modules or name == "numpy"
