// A cursor over text for the hand-written parsers.
#include "karez/base/scanner.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace karez::base {

void Scanner::skip_space() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++at_;
    } else {
      return;
    }
  }
}

bool Scanner::at_end() {
  skip_space();
  return at_ == text_.size();
}

bool Scanner::peek(std::string_view token) {
  skip_space();
  return text_.substr(at_, token.size()) == token;
}

bool Scanner::accept(std::string_view token) {
  if (!peek(token)) return false;
  at_ += token.size();
  return true;
}

void Scanner::expect(std::string_view token) {
  if (!accept(token)) fail_here(cat("expected '", token, "'"));
}

bool Scanner::peek_name() {
  skip_space();
  return at_ < text_.size() && (std::isalpha(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_');
}

std::string Scanner::name() {
  if (!peek_name()) fail_here("expected a name");
  std::size_t begin = at_;
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == '-' && at_ + 1 < text_.size() && text_[at_ + 1] == '>') break;
    if (!std::isalnum(static_cast<unsigned char>(c)) && std::string_view("_.:/-").find(c) == std::string_view::npos)
      break;
    ++at_;
  }
  while (at_ > begin + 1 && text_[at_ - 1] == ':') --at_;  // "name:" ends before the colon
  return std::string(text_.substr(begin, at_ - begin));
}

std::string Scanner::word() {
  if (!peek_name()) fail_here("expected a name");
  std::size_t begin = at_;
  while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
  return std::string(text_.substr(begin, at_ - begin));
}

std::string Scanner::quoted() {
  expect("\"");
  std::string out;
  while (at_ < text_.size() && text_[at_] != '"') {
    char c = text_[at_++];
    if (c == '\\' && at_ < text_.size()) {
      char next = text_[at_++];
      c = next == 'n' ? '\n' : next == 't' ? '\t' : next;
    }
    out += c;
  }
  if (at_ == text_.size()) fail_here("a quoted string is not closed");
  ++at_;
  return out;
}

bool Scanner::peek_number() {
  skip_space();
  if (at_ >= text_.size()) return false;
  std::string_view rest = text_.substr(at_);
  if (rest[0] == '-' || rest[0] == '+') rest.remove_prefix(1);
  return !rest.empty() && (std::isdigit(static_cast<unsigned char>(rest[0])) || rest[0] == '.' ||
                           rest.substr(0, 3) == "inf" || rest.substr(0, 3) == "nan");
}

double Scanner::number(bool& is_integer) {
  if (!peek_number()) fail_here("expected a number");
  std::size_t end = at_;
  if (text_[end] == '-' || text_[end] == '+') ++end;
  std::string_view rest = text_.substr(end);
  is_integer = false;
  if (rest.substr(0, 3) == "inf" || rest.substr(0, 3) == "nan") {
    bool negative = text_[at_] == '-', nan = rest[0] == 'n';
    at_ = end + 3;
    double inf = std::numeric_limits<double>::infinity();
    return nan ? std::nan("") : negative ? -inf : inf;
  }
  is_integer = true;
  while (end < text_.size()) {
    char c = text_[end];
    bool exponent_sign = (c == '-' || c == '+') && (text_[end - 1] == 'e' || text_[end - 1] == 'E');
    if (c == '.' || c == 'e' || c == 'E' || exponent_sign) {
      is_integer = false;
    } else if (!std::isdigit(static_cast<unsigned char>(c))) {
      break;
    }
    ++end;
  }
  std::string digits(text_.substr(at_, end - at_));
  char* stop = nullptr;
  double value = std::strtod(digits.c_str(), &stop);
  if (stop != digits.c_str() + digits.size()) fail_here("a number is malformed");
  at_ = end;
  return value;
}

std::int64_t Scanner::integer() {
  skip_space();
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error != std::errc()) fail_here("expected an integer");
  at_ = static_cast<std::size_t>(end - text_.data());
  return value;
}

void Scanner::fail_here(std::string_view message) const {
  Scanner next_token = *this;
  next_token.skip_space();  // report the position of the next token
  std::size_t line = 1, column = 1;
  for (std::size_t i = 0; i < next_token.at_; ++i) text_[i] == '\n' ? (++line, column = 1) : ++column;
  std::string_view rest = text_.substr(next_token.at_);
  rest = rest.substr(0, rest.find('\n')).substr(0, 40);
  fail(what_, ": line ", line, ", column ", column, ": ", message,
       rest.empty() ? std::string(" at the end") : cat(" at '", rest, "'"));
}

}  // namespace karez::base
