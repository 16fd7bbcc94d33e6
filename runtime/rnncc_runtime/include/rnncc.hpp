/* Compiled nets in C++17: owners of their memory over NAME.h, header only.
 *
 *     #include "lstm.h"
 *     #include "rnncc.hpp"
 *     RNNCC_NET(lstm);
 *
 *     rnncc::stream<lstm_net> voice(512); // at most 512 steps a call, a batch of 1
 *     voice.process(steps, rnncc::bind(&lstm_inputs::x, x),
 *                   rnncc::bind(&lstm_outputs::probabilities, y)).or_throw();
 *     voice.reset();
 *
 *     rnncc::model<lstm_net> whole;
 *     whole.run({T, N}, rnncc::bind(&lstm_inputs::x, x), ...);
 *
 * Constructors throw rnncc::error; default constructors with open() return a status instead, as all
 * else does, so that nothing here needs exceptions. Arrays are spans, whose lengths are compared with
 * the shapes that the library tells. process() and reset() neither allocate nor lock. An object serves
 * one call at a time; any number of objects may be used at once, each in a thread of its own. */
#ifndef RNNCC_HPP
#define RNNCC_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>
#if defined __cpp_exceptions
#include <stdexcept>
#endif

#include "rnncc.h"

namespace rnncc {

/* Codes beyond those of rnncc.h. */
enum : int {
    no_memory = 101,
    wrong_cpu = 102,    /* NAME_missing_feature() says what the CPU lacks */
    wrong_array = 103,  /* its length is not that of its shape, or the call does not read it */
    too_many_steps = 104,
    not_open = 105,
    bad_metadata = 106, /* the library is of another version of rnncc */
};

#if defined __cpp_exceptions
class error : public std::runtime_error {
  public:
    error(int number, const char *message) : std::runtime_error(message), code(number) {}
    const int code;
};
#endif

/* What became of a call: true where it did what it should. */
class [[nodiscard]] status {
  public:
    status(int code = RNNCC_OK) noexcept : code_(code) {}
    explicit operator bool() const noexcept { return code_ == RNNCC_OK; }
    int code() const noexcept { return code_; }

    const char *message() const noexcept {
        switch (code_) {
        case no_memory: return "no memory";
        case wrong_cpu: return "the CPU lacks what the code needs";
        case wrong_array: return "an array has another length than its shape, or is not read here";
        case too_many_steps: return "more steps than the stream was opened for";
        case not_open: return "the model or stream is not open";
        case bad_metadata: return "the library is of another version of rnncc";
        default: return rnncc_error_string(code_);
        }
    }

#if defined __cpp_exceptions
    void or_throw() const {
        if (code_ != RNNCC_OK) throw error(code_, message());
    }
#endif

  private:
    int code_;
};

/* A pointer and a number of elements; made of any container that has both. */
template <class T> class span {
  public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    template <class C, class = std::enable_if_t<
                           std::is_convertible_v<decltype(std::declval<C &>().data()), T *>>>
    constexpr span(C &&container) noexcept : data_(container.data()), size_(container.size()) {}
    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t i) const noexcept { return data_[i]; }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

namespace detail {

template <class T> struct same {
    using type = T;
};

/* Bytes at a multiple of 64. */
class block {
  public:
    block() noexcept = default;
    block(block &&other) noexcept { swap(other); }
    block &operator=(block &&other) noexcept {
        swap(other);
        return *this;
    }
    ~block() { ::operator delete(data_, std::align_val_t(64)); }

    bool take(std::size_t bytes) noexcept {
        block fresh;
        fresh.data_ = ::operator new(bytes ? bytes : 1, std::align_val_t(64), std::nothrow);
        fresh.size_ = bytes;
        if (!fresh.data_) return false;
        swap(fresh);
        return true;
    }
    void *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

  private:
    void swap(block &other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }
    void *data_ = nullptr;
    std::size_t size_ = 0;
};

/* The library's metadata, which are JSON: places of values in the text; NULL is none. */
inline const char *after_space(const char *at) noexcept {
    while (*at == ' ' || *at == '\n' || *at == ',' || *at == ':') at++;
    return at;
}

inline const char *after_text(const char *at) noexcept {
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && at[1]) at++;
    return *at ? at + 1 : at;
}

inline const char *after_value(const char *at) noexcept {
    int depth = 0;
    do {
        if (*at == '"') {
            at = after_text(at);
            continue;
        }
        if (depth == 0 && (*at == ',' || *at == ']' || *at == '}')) break;
        depth += (*at == '[' || *at == '{') - (*at == ']' || *at == '}');
        at++;
    } while (*at && depth > 0);
    while (depth == 0 && *at && *at != ',' && *at != ']' && *at != '}') at++;
    return at;
}

/* Whether two texts in quotes are equal, as they are written. */
inline bool equal(const char *a, const char *b) noexcept {
    const std::size_t length = static_cast<std::size_t>(after_text(a) - a);
    return std::strncmp(a, b, length) == 0;
}

/* The value of a key, which is in quotes. */
inline const char *member(const char *object, const char *key) noexcept {
    if (!object || *object != '{') return nullptr;
    for (const char *at = after_space(object + 1); *at == '"'; at = after_space(after_value(at))) {
        const bool found = equal(at, key);
        at = after_space(after_text(at));
        if (found) return at;
    }
    return nullptr;
}

inline const char *element(const char *array, std::size_t number) noexcept {
    if (!array || *array != '[') return nullptr;
    const char *at = after_space(array + 1);
    for (; *at && *at != ']'; at = after_space(after_value(at)))
        if (number-- == 0) return at;
    return nullptr;
}

/* The value of a size's formula (docs/abi.md): sums of products; quotients, rounded up; max(a, 0). */
class formula {
  public:
    formula(const char *at, const char *symbols, const std::int64_t *sizes) noexcept
        : at_(at), symbols_(symbols), sizes_(sizes) {}

    std::int64_t value() noexcept {
        std::int64_t total = product();
        while (*at_ == '+' || *at_ == '-') {
            const bool adds = *at_++ == '+';
            const std::int64_t term = product();
            total += adds ? term : -term;
        }
        return total;
    }

  private:
    void skip() noexcept {
        while (*at_ == ' ') at_++;
    }
    bool take(char letter) noexcept {
        skip();
        if (*at_ != letter) return false;
        at_++;
        skip();
        return true;
    }

    std::int64_t product() noexcept {
        std::int64_t sign = take('-') ? -1 : 1;
        do sign *= quotient();
        while (take('*'));
        return sign;
    }

    std::int64_t quotient() noexcept {
        const std::int64_t dividend = factor();
        if (!take('/')) return dividend;
        const std::int64_t divisor = factor();
        if (divisor <= 0) return -1;
        return dividend / divisor + (dividend % divisor > 0);
    }

    std::int64_t factor() noexcept {
        skip();
        if (take('(')) return inside();
        if (std::strncmp(at_, "max(", 4) == 0) {
            at_ += 4;
            const std::int64_t a = value();
            take(',');
            const std::int64_t b = inside();
            return a > b ? a : b;
        }
        if (*at_ >= '0' && *at_ <= '9') {
            std::int64_t number = 0;
            while (*at_ >= '0' && *at_ <= '9') number = 10 * number + (*at_++ - '0');
            skip();
            return number;
        }
        return symbol();
    }

    std::int64_t inside() noexcept {
        const std::int64_t inner = value();
        take(')');
        return inner;
    }

    std::int64_t symbol() noexcept {
        const std::size_t length = std::strcspn(at_, " +-*/(),\"");
        std::int64_t found = -1;
        for (std::size_t i = 0; const char *name = element(symbols_, i); i++)
            if (!std::strncmp(name + 1, at_, length) && name[length + 1] == '"') found = sizes_[i];
        at_ += length;
        skip();
        return found;
    }

    const char *at_, *symbols_;
    const std::int64_t *sizes_;
};

/* The number of elements of a shape; -1 where it is none. */
inline std::int64_t elements(const char *shape, const char *symbols, const std::int64_t *sizes) noexcept {
    std::int64_t total = 1;
    if (!shape) return -1;
    for (std::size_t i = 0; const char *at = element(shape, i); i++) {
        const std::int64_t size = formula(at + (*at == '"'), symbols, sizes).value();
        if (size < 0) return -1;
        total *= size;
    }
    return total;
}

/* Writes a number into each element of a type; false where the type cannot hold it. */
inline bool fill(const char *dtype, long long number, void *to, std::size_t count) noexcept {
    const auto write = [&](auto value) {
        for (std::size_t i = 0; i < count; i++)
            std::memcpy(static_cast<char *>(to) + i * sizeof value, &value, sizeof value);
        return true;
    };
    if (equal(dtype, "\"f32\"")) return write(static_cast<float>(number));
    if (equal(dtype, "\"f64\"")) return write(static_cast<double>(number));
    if (equal(dtype, "\"i32\"")) return write(static_cast<std::int32_t>(number));
    if (equal(dtype, "\"i64\"")) return write(static_cast<std::int64_t>(number));
    std::memset(to, 0, count * sizeof(std::int64_t));
    return number == 0;
}

inline long long number(const char *at) noexcept {
    const bool negative = *at == '-';
    long long value = 0;
    for (at += negative; *at >= '0' && *at <= '9'; at++) value = 10 * value + (*at - '0');
    return negative ? -value : value;
}

template <class... A> constexpr std::size_t count(int (*)(A...)) { return sizeof...(A); }

/* The shapes of a struct's fields, in order, as places in the metadata. */
template <class Struct> class fields {
  public:
    static constexpr std::size_t total = sizeof(Struct) / sizeof(void *);

    void read(const char *list) noexcept {
        for (std::size_t i = 0; i < total; i++) entries_[i] = element(list, i);
    }
    template <class T> static std::size_t number_of(T *Struct::*field) noexcept {
        const Struct all = {};
        const auto start = reinterpret_cast<const char *>(&all);
        return static_cast<std::size_t>(reinterpret_cast<const char *>(&(all.*field)) - start) /
               sizeof(void *);
    }
    const char *name(std::size_t i) const noexcept { return member(entries_[i], "\"name\""); }
    const char *shape(std::size_t i) const noexcept { return member(entries_[i], "\"shape\""); }
    const char *dtype(std::size_t i) const noexcept { return member(entries_[i], "\"dtype\""); }

  private:
    std::array<const char *, total> entries_ = {};
};

} // namespace detail

/* An array for a field of a struct of inputs or outputs. */
template <class Struct, class T> struct bound {
    T *Struct::*field;
    span<T> array;
};

template <class Struct, class T>
bound<Struct, T> bind(T *Struct::*field, typename detail::same<span<T>>::type array) noexcept {
    return {field, array};
}

/* What models and streams share. */
template <class Net> class owner {
  public:
    using inputs = typename Net::inputs;
    using outputs = typename Net::outputs;
    static constexpr std::size_t symbols = Net::symbols;

  protected:
    status read() noexcept {
        text_ = nullptr;
        if (!Net::supported()) return wrong_cpu;
        const char *text = Net::metadata();
        symbols_ = detail::member(text, "\"symbols\"");
        inputs_.read(detail::member(text, "\"inputs\""));
        outputs_.read(detail::member(text, "\"outputs\""));
        if (!symbols_ || detail::element(symbols_, symbols)) return bad_metadata;
        text_ = text;
        return RNNCC_OK;
    }

    /* Puts an array into its struct, if it has the length that its shape has for these sizes. */
    template <class T>
    bool put(inputs &in, outputs &, const bound<inputs, T> &one, const std::int64_t *sizes) noexcept {
        in.*one.field = one.array.data();
        return fits(inputs_.shape(inputs_.number_of(one.field)), one.array.size(), sizes);
    }
    template <class T>
    bool put(inputs &, outputs &out, const bound<outputs, T> &one, const std::int64_t *sizes) noexcept {
        out.*one.field = one.array.data();
        return fits(outputs_.shape(outputs_.number_of(one.field)), one.array.size(), sizes);
    }

    const char *text_ = nullptr, *symbols_ = nullptr;
    detail::fields<inputs> inputs_;
    detail::fields<outputs> outputs_;
    detail::block workspace_;

  private:
    bool fits(const char *shape, std::size_t size, const std::int64_t *sizes) const noexcept {
        const std::int64_t right = detail::elements(shape, symbols_, sizes);
        return right >= 0 && size == static_cast<std::size_t>(right);
    }
};

/* Whole sequences. */
template <class Net> class model : public owner<Net> {
  public:
    using sizes = std::array<std::int64_t, Net::symbols>;

    model() noexcept = default;

    /* Asks whether the CPU is right; run() does so where nobody has. */
    status open() noexcept { return this->read(); }

    /* Takes the workspace for calls of these sizes. */
    status reserve(const sizes &of) noexcept {
        const std::size_t bytes = std::apply(Net::workspace_bytes, of);
        if (bytes == static_cast<std::size_t>(-1)) return RNNCC_BAD_SIZE;
        const bool enough = this->workspace_.data() && bytes <= this->workspace_.size();
        return enough || this->workspace_.take(bytes) ? status() : status(no_memory);
    }

    /* Computes the outputs that are bound; allocates only where the workspace is too small. */
    template <class... Bound> status run(const sizes &of, const Bound &...arrays) noexcept {
        if (!this->text_)
            if (const status opened = open(); !opened) return opened;
        if (const status reserved = reserve(of); !reserved) return reserved;
        typename Net::inputs in = {};
        [[maybe_unused]] typename Net::outputs out = {};
        if (!(this->put(in, out, arrays, of.data()) && ...)) return wrong_array;
        const auto call = [&](auto... size) {
            return Net::run(&in, &out, this->workspace_.data(), size...);
        };
        return std::apply(call, of);
    }
};

/* A sequence, or a batch of them, that comes piece by piece. */
template <class Net> class stream : public owner<Net> {
  public:
    /* The sizes behind T: N, and a net's further ones in the order of NAME_step. */
    using sizes = std::array<std::int64_t, Net::symbols - 1>;

    stream() noexcept = default;

#if defined __cpp_exceptions
    template <class... Bound>
    explicit stream(std::int64_t most_steps, const sizes &others = ones(), const Bound &...starts) {
        open(most_steps, others, starts...).or_throw();
    }
#endif

    /* Takes all memory that calls of up to `most_steps` need, and begins a sequence.
     *
     * `starts`: bound inputs that NAME_state_init reads, such as first states; what is left out is
     * what it is in Python: zeros, and lengths without an end. */
    template <class... Bound>
    status open(std::int64_t most_steps, const sizes &others = ones(), const Bound &...starts) noexcept {
        if (const status read = this->read(); !read) return read;
        const status opened = begin(most_steps, others, starts...);
        if (!opened) this->text_ = nullptr;
        return opened;
    }

    bool is_open() const noexcept { return this->text_ && state_.data(); }

    /* Computes the next steps; outputs that are not bound cost nothing. The state stays as it was
     * where the status is not OK. */
    template <class... Bound> status process(std::int64_t steps, const Bound &...arrays) noexcept {
        if (!this->is_open()) return not_open;
        if (steps > most_) return too_many_steps;
        typename Net::inputs in = {};
        [[maybe_unused]] typename Net::outputs out = {};
        all_[0] = steps;
        if (!(this->put(in, out, arrays, all_.data()) && ...)) return wrong_array;
        if (!(is_read(arrays) && ...)) return wrong_array;
        return std::apply([&](auto... size) {
            return Net::step(&in, &out, state_.data(), this->workspace_.data(), size...);
        }, all_);
    }

    /* Begins the sequence again, as open() did. */
    void reset() noexcept {
        if (this->is_open()) std::memcpy(state_.data(), first_.data(), state_.size());
    }

    /* What the steps so far have left: may be saved, and given back by restore(). */
    span<const unsigned char> state() const noexcept {
        return {static_cast<const unsigned char *>(state_.data()), state_.size()};
    }
    status restore(span<const unsigned char> saved) noexcept {
        if (!this->is_open()) return not_open;
        if (saved.size() != state_.size()) return wrong_array;
        std::memcpy(state_.data(), saved.data(), saved.size());
        return RNNCC_OK;
    }

  private:
    static sizes ones() noexcept {
        sizes made = {};
        for (auto &size : made) size = 1;
        return made;
    }

    template <class... Bound>
    status begin(std::int64_t most_steps, const sizes &others, const Bound &...starts) noexcept {
        starts_ = detail::member(detail::member(this->text_, "\"stream\""), "\"starts\"");
        if (!starts_) return bad_metadata;
        most_ = most_steps;
        all_[0] = most_steps;
        for (std::size_t i = 0; i < others.size(); i++) all_[i + 1] = others[i];
        const std::size_t workspace = std::apply(Net::workspace_bytes, all_);
        const std::size_t bytes = std::apply([](auto... n) { return Net::state_bytes(n...); }, others);
        constexpr auto bad = static_cast<std::size_t>(-1);
        if (workspace == bad || bytes == bad) return RNNCC_BAD_SIZE;
        const bool taken = this->workspace_.take(workspace) && state_.take(bytes) && first_.take(bytes);
        if (!taken) return no_memory;
        typename Net::inputs in = {};
        [[maybe_unused]] typename Net::outputs out = {};
        all_[0] = 0;
        if (!(this->put(in, out, starts, all_.data()) && ...)) return wrong_array;
        if ((is_read(starts) || ...)) return wrong_array;
        std::array<detail::block, detail::fields<typename Net::inputs>::total> left_out;
        for (std::size_t i = 0; i < left_out.size(); i++)
            if (const status made = usual(in, i, left_out[i]); !made) return made;
        const int code = std::apply([&](auto... n) {
            return Net::state_init(&in, state_.data(), this->workspace_.data(), n...);
        }, others);
        if (code == RNNCC_OK) std::memcpy(first_.data(), state_.data(), bytes);
        return code;
    }

    /* Whether an array is for steps: all are, but for the inputs that begin the state. */
    template <class T> bool is_read(const bound<typename Net::inputs, T> &one) const noexcept {
        const std::size_t number = this->inputs_.number_of(one.field);
        return !detail::member(starts_, this->inputs_.name(number));
    }
    template <class T> bool is_read(const bound<typename Net::outputs, T> &) const noexcept { return true; }

    /* What an input is that begins the state and is left out. */
    status usual(typename Net::inputs &in, std::size_t number, detail::block &room) noexcept {
        const char *name = this->inputs_.name(number);
        const char *value = name ? detail::member(starts_, name) : nullptr;
        void *given = nullptr;
        std::memcpy(&given, reinterpret_cast<char *>(&in) + number * sizeof given, sizeof given);
        if (given || !value || *value == 'n') return RNNCC_OK;
        const std::int64_t size =
            detail::elements(this->inputs_.shape(number), this->symbols_, all_.data());
        if (size < 0) return bad_metadata;
        const auto count = static_cast<std::size_t>(size);
        if (!room.take(count * sizeof(std::int64_t))) return no_memory;
        if (!detail::fill(this->inputs_.dtype(number), detail::number(value), room.data(), count))
            return bad_metadata;
        given = room.data();
        std::memcpy(reinterpret_cast<char *>(&in) + number * sizeof given, &given, sizeof given);
        return RNNCC_OK;
    }

    std::int64_t most_ = 0;
    std::array<std::int64_t, Net::symbols> all_ = {};
    const char *starts_ = nullptr;
    detail::block state_, first_;
};

} // namespace rnncc

/* Declares NAME_net, the functions of NAME.h for the classes above. */
#define RNNCC_NET(NAME)                                                                              \
    struct NAME##_net {                                                                              \
        using inputs = NAME##_inputs;                                                                \
        using outputs = NAME##_outputs;                                                              \
        static constexpr std::size_t symbols = rnncc::detail::count(&NAME##_run) - 3;                \
        static bool supported() noexcept { return NAME##_supported() != 0; }                         \
        static const char *metadata() noexcept { return NAME##_metadata(); }                         \
        static constexpr auto workspace_bytes = &NAME##_workspace_bytes;                             \
        static constexpr auto run = &NAME##_run;                                                     \
        template <class... A> static std::size_t state_bytes(A... a) noexcept {                      \
            return NAME##_state_bytes(a...);                                                         \
        }                                                                                            \
        template <class... A> static int state_init(A... a) noexcept {                               \
            return NAME##_state_init(a...);                                                          \
        }                                                                                            \
        template <class... A> static int step(A... a) noexcept { return NAME##_step(a...); }         \
    }

#endif
