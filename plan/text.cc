// A Plan as text, one readable line per thing, and back: `parse_plan(print(p)) == p`.
#include <fstream>
#include <sstream>

#include "base/hash.h"
#include "base/scan.h"
#include "plan/catalog.h"
#include "plan/plan.h"

namespace karez {

std::string_view name_of(BlockKind kind) {
  switch (kind) {
    case BlockKind::scratch: return "scratch";
    case BlockKind::reg: return "register";
    case BlockKind::variable: return "variable";
    case BlockKind::constant: return "constant";
    case BlockKind::external: return "external";
  }
  return "?";
}

std::string_view name_of(BodyKind kind) {
  switch (kind) {
    case BodyKind::compute: return "compute";
    case BodyKind::input: return "input";
    case BodyKind::fetch: return "fetch";
    case BodyKind::state: return "state";
    case BodyKind::collective: return "collective";
  }
  return "?";
}

std::string print(const CallSpec& call) {
  auto views = [](const std::vector<View>& list) { return join(list, ", ", [](const View& v) { return print(v); }); };
  return cat(call.op, "(", views(call.in), ")", call.attrs.empty() ? "" : " " + call.attrs.print(), " -> ", views(call.out),
             call.device == "cpu" ? "" : " on " + call.device, call.team == 1 ? "" : cat(" team ", call.team));
}

// Printing. A field that has its usual value is left out; ids are written r3 (register), b0 (block), a7 (actor).
namespace {

std::string actor_text(ActorId id) { return id == session_actor ? "session" : cat("a", id.index); }
std::string place_text(const PlanDevice& d) { return cat(d.rank, " ", d.device, " ", quote(d.kind)); }
std::string at_text(const std::string& where) { return where.empty() ? "" : " at " + quote(where); }
std::string ints_text(const std::vector<std::int64_t>& values) { return cat("[", join(values, ", "), "]"); }

std::string operand_text(const Operand& o) {
  std::string place = o.reg.valid() ? cat("r", o.reg) : o.block.valid() ? cat("b", o.block) : "none";
  if (o.reg.valid() && o.block.valid()) place += cat(" b", o.block);
  return cat(place, o.offset == 0 ? "" : cat(" + ", o.offset), " ", print(o.view));
}

std::string operands_text(std::string_view word, const std::vector<Operand>& list) {
  return list.empty() ? "" : cat(" ", word, " ", join(list, ", ", operand_text));
}

std::string call_text(const Call& c) {
  return cat(quote(c.kernel), c.attrs.empty() ? "" : " " + c.attrs.print(), operands_text("in", c.in), operands_text("out", c.out),
             c.workspace ? " workspace " + operand_text(*c.workspace) : "", c.team == 1 ? "" : cat(" team ", c.team), at_text(c.where));
}

std::string ports_text(std::string_view word, const std::vector<Port>& ports) {
  auto one = [](const Port& p) { return cat("r", p.reg, p.period == 1 ? "" : cat(" every ", p.period)); };
  return ports.empty() ? "" : cat(" ", word, " ", join(ports, ", ", one));
}

std::string pieces_text(std::string_view word, const std::vector<Piece>& pieces) {
  auto one = [](const Piece& p) { return cat(p.peer, " ", ints_text(p.begin), " ", ints_text(p.size)); };
  return pieces.empty() ? "" : cat(" ", word, " ", join(pieces, ", ", one));
}

std::string collective_text(const Collective& c) {
  return cat(quote(c.kind), c.reduce.empty() ? "" : " " + quote(c.reduce), " communicator ", c.communicator, " turn ", c.turn, " in ",
             operand_text(c.in), " out ", operand_text(c.out), pieces_text("sends", c.sends), pieces_text("receives", c.receives),
             c.staging ? " staging " + operand_text(*c.staging) : "", at_text(c.where));
}

void print_actor(std::string& out, std::size_t number, const Actor& a) {
  out += cat("actor a", number, ": ", name_of(a.body), " ", quote(a.name), " stream ", a.stream,
             a.priority == 0 ? "" : cat(" priority ", a.priority), ports_text("in", a.inputs), ports_text("out", a.outputs),
             a.binding.empty() ? "" : " binding " + quote(a.binding), at_text(a.where), "\n");
  for (const Call& c : a.calls) out += cat("  call ", call_text(c), "\n");
  if (a.collective) out += cat("  collective ", collective_text(*a.collective), "\n");
  for (const Operand& o : a.bound) out += cat("  bound ", operand_text(o), "\n");
  for (const Attrs& s : a.slices) out += cat("  slice ", s.print(), "\n");
}

}  // namespace

std::string print(const Plan& plan) {
  std::string out = cat("plan ", quote(plan.name), " world ", plan.world, " rank ", plan.rank, " hash ", static_cast<std::int64_t>(plan.program_hash), "\n");
  for (std::size_t i = 0; i < plan.devices.size(); ++i) out += cat("device ", i, ": ", place_text(plan.devices[i]), "\n");
  for (std::size_t i = 0; i < plan.streams.size(); ++i) {
    const Stream& s = plan.streams[i];
    out += cat("stream ", i, ": ", quote(s.name), " device ", s.device, " worker ", s.worker, "\n");
  }
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    const Block& b = plan.blocks[i];
    out += cat("block b", i, ": ", name_of(b.kind), " device ", b.device, " bytes ", b.bytes, b.name.empty() ? "" : " name " + quote(b.name),
               b.layout.empty() ? "" : " layout " + quote(b.layout), "\n");
  }
  for (std::size_t i = 0; i < plan.registers.size(); ++i) {
    const Register& r = plan.registers[i];
    out += cat("register r", i, ": ", actor_text(r.producer), " -> ", r.consumers.empty() ? "none" : join(r.consumers, ", ", actor_text), r.slots == 1 ? "" : cat(" slots ", r.slots),
               r.bytes == 0 ? "" : cat(" bytes ", r.bytes), r.block.valid() ? cat(" in b", r.block) : "", r.offset == 0 ? "" : cat(" + ", r.offset),
               r.stride == 0 ? "" : cat(" stride ", r.stride), r.type.empty() ? "" : " type " + quote(r.type), "\n");
  }
  for (std::size_t i = 0; i < plan.actors.size(); ++i) print_actor(out, i, plan.actors[i]);
  for (const Link& l : plan.links)
    out += cat("link r", l.reg, l.send ? " to " : " from ", place_text(l.peer), " chunk ", l.chunk, "\n");
  for (std::size_t i = 0; i < plan.communicators.size(); ++i) {
    const Communicator& c = plan.communicators[i];
    out += cat("communicator ", i, ": ", quote(c.algorithm), " chunk ", c.chunk, " members ", join(c.members, ", ", place_text), " sequence ",
               join(c.sequence, ", ", [](const std::string& s) { return quote(s); }), "\n");
  }
  for (const Transfer& t : plan.transfers) out += cat("transfer ", quote(t.kind), " ", quote(t.axis), " bytes ", t.bytes, " ", quote(t.value), "\n");
  for (const Call& c : plan.setup) out += cat("setup ", call_text(c), "\n");
  return out;
}

// Parsing: the same fields in the same order.
namespace {

class PlanReader {
 public:
  explicit PlanReader(std::string_view text) : text_(text), in_(text, "plan") {}

  Plan read() {
    in_.expect("plan");
    plan_.name = in_.quoted();
    in_.expect("world");
    plan_.world = small();
    in_.expect("rank");
    plan_.rank = small();
    in_.expect("hash");
    plan_.program_hash = static_cast<std::uint64_t>(in_.integer());
    while (!in_.at_end()) line();
    return std::move(plan_);
  }

 private:
  int small() {
    std::int64_t value = in_.integer();
    if (value != static_cast<int>(value)) in_.fail_here(cat(value, " is out of range"));
    return static_cast<int>(value);
  }
  int small_after(std::string_view word, int otherwise) { return in_.accept(word) ? small() : otherwise; }
  std::string quoted_after(std::string_view word) { return in_.accept(word) ? in_.quoted() : std::string(); }
  template <class IdType>
  IdType id(std::string_view letter) {
    in_.expect(letter);
    return IdType(small());
  }
  // Things of a kind are numbered in order; the number is there for the reader.
  template <class Item>
  Item& numbered(std::vector<Item>& items, std::string_view letter) {
    in_.expect(letter);
    if (static_cast<std::size_t>(in_.integer()) != items.size()) in_.fail_here(cat("number ", items.size(), " is due"));
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
    else in_.fail_here("expected device, stream, block, register, actor, link, communicator, transfer or setup");
  }

  PlanDevice place() {
    PlanDevice d;
    d.rank = small();
    d.device = small();
    d.kind = in_.quoted();
    return d;
  }
  void device(PlanDevice& d) { d = place(); }
  void stream(Stream& s) {
    s.name = in_.quoted();
    in_.expect("device");
    s.device = DeviceId(small());
    in_.expect("worker");
    s.worker = small();
  }
  void block(Block& b) {
    std::string kind = in_.name();
    bool known = false;
    for (BlockKind k : {BlockKind::scratch, BlockKind::reg, BlockKind::variable, BlockKind::constant, BlockKind::external})
      if (name_of(k) == kind) b.kind = k, known = true;
    if (!known) in_.fail_here(cat("'", kind, "' is no kind of block (scratch, register, variable, constant, external)"));
    in_.expect("device");
    b.device = DeviceId(small());
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
    r.slots = small_after("slots", 1);
    if (in_.accept("bytes")) r.bytes = in_.integer();
    if (in_.accept("in")) r.block = id<BlockId>("b");
    if (in_.accept("+")) r.offset = in_.integer();
    if (in_.accept("stride")) r.stride = in_.integer();
    r.type = quoted_after("type");
  }

  Operand operand() {
    Operand o;
    if (in_.accept("r")) {
      o.reg = RegisterId(small());
      if (in_.peek("b") && !in_.peek("bool")) o.block = id<BlockId>("b");
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
  // {..} up to its brace; texts inside may hold braces.
  Attrs attrs() {
    if (!in_.peek("{")) return {};
    std::size_t begin = in_.position(), end = begin;
    bool inside = false;
    for (; end < text_.size() && (inside || text_[end] != '}'); ++end) {
      if (text_[end] == '\\' && inside) ++end;
      else if (text_[end] == '"') inside = !inside;
    }
    if (end >= text_.size()) in_.fail_here("attributes do not end");
    std::string_view whole = text_.substr(begin, end + 1 - begin);
    in_.expect(whole);
    return Attrs::parse(whole);
  }
  Call call() {
    Call c;
    c.kernel = in_.quoted();
    c.attrs = attrs();
    c.in = operands("in");
    c.out = operands("out");
    if (in_.accept("workspace")) c.workspace = operand();
    c.team = small_after("team", 1);
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
  std::vector<Piece> pieces(std::string_view word) {
    std::vector<Piece> list;
    if (!in_.accept(word)) return list;
    do {
      Piece& p = list.emplace_back();
      p.peer = small();
      p.begin = ints();
      p.size = ints();
    } while (in_.accept(","));
    return list;
  }
  Collective collective() {
    Collective c;
    c.kind = in_.quoted();
    if (in_.peek("\"")) c.reduce = in_.quoted();
    in_.expect("communicator");
    c.communicator = CommunicatorId(small());
    in_.expect("turn");
    c.turn = small();
    in_.expect("in");
    c.in = operand();
    in_.expect("out");
    c.out = operand();
    c.sends = pieces("sends");
    c.receives = pieces("receives");
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
      p.period = small_after("every", 1);
    } while (in_.accept(","));
    return list;
  }
  void actor(Actor& a) {
    std::string body = in_.name();
    bool known = false;
    for (BodyKind k : {BodyKind::compute, BodyKind::input, BodyKind::fetch, BodyKind::state, BodyKind::collective})
      if (name_of(k) == body) a.body = k, known = true;
    if (!known) in_.fail_here(cat("'", body, "' is no kind of actor (compute, input, fetch, state, collective)"));
    a.name = in_.quoted();
    in_.expect("stream");
    a.stream = StreamId(small());
    a.priority = small_after("priority", 0);
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
    l.peer = place();
    in_.expect("chunk");
    l.chunk = in_.integer();
    plan_.links.push_back(l);
  }
  void communicator(Communicator& c) {
    c.algorithm = in_.quoted();
    in_.expect("chunk");
    c.chunk = in_.integer();
    in_.expect("members");
    if (in_.peek_number()) {
      do c.members.push_back(place());
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
    t.kind = in_.quoted();
    t.axis = in_.quoted();
    in_.expect("bytes");
    t.bytes = in_.integer();
    t.value = in_.quoted();
    plan_.transfers.push_back(t);
  }

  std::string_view text_;
  Scan in_;
  Plan plan_;
};

}  // namespace

Plan parse_plan(std::string_view text) { return PlanReader(text).read(); }

void save(const Plan& plan, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  out << print(plan);
  out.flush();
  require(out.good(), "plan: cannot write ", path);
}

Plan load_plan(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  require(in.good(), "plan: cannot read ", path);
  std::ostringstream text;
  text << in.rdbuf();
  try {
    return parse_plan(text.str());
  } catch (const Error& error) {
    fail(path, ": ", error.what());
  }
}

std::uint64_t rank_hash(const Plan& plan) {
  Plan bare = plan;
  bare.name.clear();
  for (Stream& s : bare.streams) s.name.clear();
  for (Register& r : bare.registers) r.type.clear();
  for (Actor& a : bare.actors) {
    a.name.clear();
    a.where.clear();
    for (Call& c : a.calls) c.where.clear();
    if (a.collective) a.collective->where.clear();
  }
  for (Communicator& c : bare.communicators)
    for (std::string& s : c.sequence) s.clear();
  for (Transfer& t : bare.transfers) t.value.clear();
  for (Call& c : bare.setup) c.where.clear();
  return hash_text(print(bare));
}

}  // namespace karez
