// The parser of a plan's text. It reads the fields in the order in which text.cc prints them, so that
// `parse_plan(print(p)) == p`.
#include "karez/base/scanner.h"
#include "karez/base/text.h"
#include "karez/plan/plan.h"

namespace karez::plan {
namespace {

class PlanReader {
 public:
  explicit PlanReader(std::string_view text) : text_(text), in_(text, "plan") {}

  Plan read() {
    in_.expect("plan");
    plan_.name = in_.quoted();
    in_.expect("world");
    plan_.world = small_int();
    in_.expect("rank");
    plan_.rank = small_int();
    in_.expect("hash");
    plan_.program_hash = static_cast<std::uint64_t>(in_.integer());
    while (!in_.at_end()) line();
    return std::move(plan_);
  }

 private:
  int small_int() {
    std::int64_t value = in_.integer();
    if (value != static_cast<int>(value)) in_.fail_here(cat(value, " is out of range"));
    return static_cast<int>(value);
  }
  int small_int_after(std::string_view word, int default_value) {
    return in_.accept(word) ? small_int() : default_value;
  }
  std::string quoted_after(std::string_view word) { return in_.accept(word) ? in_.quoted() : std::string(); }
  template <class IdType> IdType id(std::string_view letter) {
    in_.expect(letter);
    return IdType(small_int());
  }
  // Adds an item and checks its number. Items of each kind are numbered in order from 0; the text contains the numbers
  // only for readers.
  template <class Items> typename Items::value_type& numbered(Items& items, std::string_view letter) {
    in_.expect(letter);
    const std::int64_t found = in_.integer();
    if (static_cast<std::size_t>(found) != items.size())
      in_.fail_here(cat("expected number ", items.size(), ", got ", found));
    in_.expect(":");
    return items.emplace_back();
  }

  void line() {
    if (in_.accept("device")) device(numbered(plan_.devices, ""));
    else if (in_.accept("stream")) stream(numbered(plan_.streams, ""));
    else if (in_.accept("block")) block(numbered(plan_.blocks, "b"));
    else if (in_.accept("register")) reg(numbered(plan_.registers, "r"));
    else if (in_.accept("actor")) actor(numbered(plan_.actors, "a"));
    else if (in_.accept("link")) link();
    else if (in_.accept("communicator")) communicator(numbered(plan_.communicators, ""));
    else if (in_.accept("transfer")) transfer();
    else if (in_.accept("setup")) plan_.setup.push_back(call());
    else if (in_.accept("cost ")) cost();
    else if (in_.accept("data")) data_bytes();
    else
      in_.fail_here(
          "expected device, stream, block, register, actor, link, communicator, transfer, setup, cost or data");
  }

  PlanDevice plan_device() {
    PlanDevice d;
    d.rank = small_int();
    d.device = small_int();
    d.kind = in_.quoted();
    return d;
  }
  void device(PlanDevice& d) { d = plan_device(); }
  void stream(Stream& s) {
    s.kind = stream_kind_from(in_.quoted());
    in_.expect("device");
    s.device = DeviceId(small_int());
    in_.expect("worker");
    s.worker = small_int();
  }
  void block(Block& b) {
    std::string kind = in_.name();
    bool is_known = false;
    for (BlockKind k :
         {BlockKind::scratch, BlockKind::reg, BlockKind::variable, BlockKind::constant, BlockKind::external})
      if (name_of(k) == kind) b.kind = k, is_known = true;
    if (!is_known)
      in_.fail_here(
          cat("unknown kind of block '", kind, "'; expected one of: scratch, register, variable, constant, external"));
    in_.expect("device");
    b.device = DeviceId(small_int());
    in_.expect("bytes");
    b.bytes = in_.integer();
    b.name = quoted_after("name");
    b.layout = quoted_after("layout");
  }
  ActorId neighbour() { return in_.accept("session") ? session_actor : id<ActorId>("a"); }
  void reg(Register& r) {
    r.producer = neighbour();
    in_.expect("->");
    if (!in_.accept("none")) {
      do r.consumers.push_back(neighbour());
      while (in_.accept(","));
    }
    r.slots = small_int_after("slots", 1);
    if (in_.accept("bytes")) r.bytes = in_.integer();
    if (in_.accept("in")) r.block = id<BlockId>("b");
    if (in_.accept("+")) r.offset = in_.integer();
    if (in_.accept("stride")) r.stride = in_.integer();
    r.type = quoted_after("type");
  }

  Operand operand() {
    Operand o;
    if (in_.accept("r")) {
      o.reg = RegisterId(small_int());
      if (in_.peek("b") && !in_.peek("bool") && !in_.peek("bf16")) o.block = id<BlockId>("b");
    } else if (!in_.accept("none")) {
      o.block = id<BlockId>("b");
    }
    if (in_.accept("+")) o.offset = in_.integer();
    o.view = parse_view(in_);
    return o;
  }
  std::vector<Operand> operands(std::string_view word) {
    std::vector<Operand> list;
    if (!in_.accept(word)) return list;
    do list.push_back(operand());
    while (in_.accept(","));
    return list;
  }
  // Reads {..} up to its closing brace; quoted strings may contain braces.
  Attrs attrs() {
    if (!in_.peek("{")) return {};
    std::size_t begin = in_.position(), end = begin;
    bool inside = false;
    for (; end < text_.size() && (inside || text_[end] != '}'); ++end) {
      if (text_[end] == '\\' && inside) ++end;
      else if (text_[end] == '"') inside = !inside;
    }
    if (end >= text_.size()) in_.fail_here("attributes have no closing '}'");
    std::string_view braced_text = text_.substr(begin, end + 1 - begin);
    in_.expect(braced_text);
    return Attrs::parse(braced_text);
  }
  Call call() {
    Call c;
    c.kernel = in_.quoted();
    c.attrs = attrs();
    c.in = operands("in");
    c.out = operands("out");
    if (in_.accept("workspace")) c.workspace = operand();
    c.team = small_int_after("team", 1);
    if (in_.accept("acts")) {
      c.acts.begin = small_int();
      in_.expect("..");
      c.acts.end = small_int();
    }
    c.where = quoted_after("at");
    return c;
  }
  std::vector<std::int64_t> ints() {
    std::vector<std::int64_t> values;
    in_.expect("[");
    while (!in_.accept("]")) {
      if (!values.empty()) in_.expect(",");
      values.push_back(in_.integer());
    }
    return values;
  }
  std::vector<PeerBox> peer_boxes(std::string_view word) {
    std::vector<PeerBox> list;
    if (!in_.accept(word)) return list;
    do {
      PeerBox& p = list.emplace_back();
      p.peer = small_int();
      p.begin = ints();
      p.size = ints();
    } while (in_.accept(","));
    return list;
  }
  Collective collective() {
    Collective c;
    c.kind = collective_kind_from(in_.quoted());
    if (in_.peek("\"")) {
      const std::string name = in_.quoted();
      c.reduce = reduce_from(name);
      require(c.reduce.has_value(), "unknown reduction '", name, "'; expected one of: sum, max, min");
    }
    c.algorithm = collective_algorithm_from(quoted_after("by"));
    in_.expect("communicator");
    c.communicator = CommunicatorId(small_int());
    in_.expect("turn");
    c.turns.clear();
    do c.turns.push_back(small_int());
    while (in_.accept(","));
    in_.expect("in");
    c.in = operand();
    in_.expect("out");
    c.out = operand();
    c.sends = peer_boxes("sends");
    c.receives = peer_boxes("receives");
    if (in_.accept("staging")) c.staging = operand();
    c.where = quoted_after("at");
    return c;
  }
  std::vector<Port> ports(std::string_view word) {
    std::vector<Port> list;
    if (!in_.accept(word)) return list;
    do {
      Port& p = list.emplace_back();
      p.reg = id<RegisterId>("r");
      p.period = small_int_after("every", 1);
    } while (in_.accept(","));
    return list;
  }
  void actor(Actor& a) {
    std::string body = in_.name();
    bool is_known = false;
    for (BodyKind k : {BodyKind::compute, BodyKind::input, BodyKind::fetch, BodyKind::state, BodyKind::collective})
      if (name_of(k) == body) a.body = k, is_known = true;
    if (!is_known)
      in_.fail_here(
          cat("unknown kind of actor '", body, "'; expected one of: compute, input, fetch, state, collective"));
    a.name = in_.quoted();
    in_.expect("stream");
    a.stream = StreamId(small_int());
    a.priority = small_int_after("priority", 0);
    a.inputs = ports("in");
    a.outputs = ports("out");
    a.binding = quoted_after("binding");
    a.where = quoted_after("at");
    while (true) {
      if (in_.accept("call")) a.calls.push_back(call());
      else if (in_.accept("collective")) a.collective = collective();
      else if (in_.accept("bound")) a.bound.push_back(operand());
      else if (in_.accept("slice")) a.slices.push_back(attrs());
      else return;
    }
  }
  void link() {
    Link l;
    l.reg = id<RegisterId>("r");
    l.send = in_.accept("to");
    if (!l.send) in_.expect("from");
    l.peer = plan_device();
    in_.expect("chunk");
    l.chunk = in_.integer();
    plan_.links.push_back(l);
  }
  void communicator(Communicator& c) {
    in_.expect("chunk");
    c.chunk = in_.integer();
    in_.expect("members");
    if (in_.peek_number()) {
      do c.members.push_back(plan_device());
      while (in_.accept(","));
    }
    in_.expect("sequence");
    if (in_.peek("\"")) {
      do c.sequence.push_back(in_.quoted());
      while (in_.accept(","));
    }
  }
  void transfer() {
    Transfer t;
    t.kind = collective_kind_from(in_.quoted());
    t.axis = in_.quoted();
    in_.expect("bytes");
    t.bytes = in_.integer();
    t.value = in_.quoted();
    plan_.transfers.push_back(t);
  }

  void data_bytes() {
    in_.expect("bytes");
    plan_.data_bytes = in_.integer();
  }

  // Reads one line of the cost table, which is used for predictions.
  void cost() {
    const std::string_view line = trim(text_.substr(in_.position(), text_.find('\n', in_.position()) - in_.position()));
    if (line.empty() || line[0] == '#') in_.fail_here("expected a line of a cost table");
    in_.expect(line);
    plan_.costs += cat(line, "\n");
  }

  std::string_view text_;
  Scanner in_;
  Plan plan_;
};

}  // namespace

Plan parse_plan(std::string_view text) { return PlanReader(text).read(); }

}  // namespace karez::plan
