// Bindings of worlds and meshes.
#include "karez/api/world.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>

#include <map>
#include <memory>

#include "python/src/bindings.h"
#include "python/src/value.h"

namespace karez::python {
namespace {
using namespace nb::literals;

// Called by a waiting thread. Throws if the handler of a Python signal raises an exception, as it does for Ctrl-C.
void check_signals() {
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

InputCheck input_check_from(const std::string& word) {
  for (const auto& [name, check] :
       {std::pair("off", InputCheck::off), {"sampled", InputCheck::sampled}, {"full", InputCheck::full}})
    if (word == name) return check;
  base::fail("karez.init: check_inputs must be 'off', 'sampled' or 'full', got '", word, "'");
}

std::shared_ptr<World> make_world(int devices, std::uint64_t seed, int workers, int team, int data_cores, int in_flight,
                                  std::int64_t memory, bool check_nan, const std::string& cost_file, int device_limit,
                                  double start_timeout, double peer_timeout, const std::string& check_inputs) {
  WorldOptions options;
  options.devices = devices;
  options.seed = seed;
  options.workers = workers;
  options.team = team;
  options.data_cores = data_cores;
  options.in_flight = in_flight;
  options.memory = memory;
  options.check_nan = check_nan;
  options.cost_file = cost_file;
  options.device_limit = device_limit;
  options.start_timeout = start_timeout;
  options.peer_timeout = peer_timeout;
  options.check_inputs = input_check_from(check_inputs);
  options.while_waiting = check_signals;
  options.while_ending = [](const std::function<void()>& end) {
    if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) return end();
    GilRelease waiting;
    end();
  };
  GilRelease without_gil;
  return {new World(std::move(options)), [](World* world) {
            GilRelease waiting;
            delete world;
          }};
}

void init_variables(nb::class_<World>& type) {
  type.def("has", [](const World& world, const Value& parameter) {
    const Parameter& which = parameter.parameter();
    GilRelease without_gil;
    return world.has(which);
  });
  type.def("read", [](const World& world, const Value& parameter) {
    const SourceLine line = user_line();
    const Parameter which = parameter.parameter();
    HostArray out;
    {
      GilRelease without_gil;
      out = world.read(which, line);
    }
    return numpy_array(std::move(out));
  });
  type.def("read_named", [](const World& world, const std::string& name) {
    const SourceLine line = user_line();
    HostArray out;
    {
      GilRelease without_gil;
      out = world.read(name, line);
    }
    return numpy_array(std::move(out));
  });
  type.def("write", [](World& world, const Value& parameter, nb::handle value) {
    const Parameter which = parameter.parameter();
    const HostArray array = host_array(value);
    GilRelease without_gil;
    world.write(which, array);
  });
  type.def("first_values", [](const World& world, const std::vector<const Value*>& parameters) {
    const std::vector<Parameter> which = parameters_from(parameters);
    std::vector<HostArray> values;
    {
      GilRelease without_gil;
      values = world.first_values(which);
    }
    nb::list out;
    for (HostArray& value : values) out.append(numpy_array(std::move(value)));
    return out;
  });
  type.def("variables", &World::variables, nb::call_guard<GilRelease>());
}

void init_files(nb::class_<World>& type) {
  type.def("save", [](const World& world, const std::string& path, std::int64_t position,
                      const std::map<std::string, std::string>& notes) {
    const SourceLine line = user_line();
    GilRelease without_gil;
    world.save(path, {position, notes}, line);
  });
  type.def("load", [](World& world, const std::string& path, const std::vector<const Value*>& parameters,
                      const std::vector<std::pair<std::string, std::string>>& names, bool missing, bool extra,
                      const std::vector<const Value*>& known) {
    LoadOptions options{
        .parameters = parameters_from(parameters), .missing = missing, .extra = extra, .known = parameters_from(known)};
    for (const auto& [file, name] : names) options.rules.push_back({.file = file, .name = name});
    CheckpointNotes notes;
    const SourceLine line = user_line();
    {
      GilRelease without_gil;
      notes = world.load(path, options, line);
    }
    return std::pair(notes.position, notes.notes);
  });
}

}  // namespace

void init_world(nb::module_& m) {
  nb::class_<World> type(m, "World", "Devices, their threads, and all state that outlives calls.");
  type.def("__init__", [](World*) { base::fail("a World cannot be constructed; karez.init creates the world"); });
  m.def("make_world", &make_world, "devices"_a, "seed"_a, "workers"_a, "team"_a, "data_cores"_a, "in_flight"_a,
        "memory"_a, "check_nan"_a, "cost_file"_a, "device_limit"_a, "start_timeout"_a, "peer_timeout"_a,
        "check_inputs"_a);
  type.def_prop_ro("rank", &World::rank);
  type.def_prop_ro("ranks", &World::ranks);
  type.def("grow_to", &World::grow_to);
  type.def("barrier", &World::barrier, nb::call_guard<GilRelease>());
  type.def("reset", &World::reset, nb::call_guard<GilRelease>());
  m.def("stop_other_threads", &stop_other_threads);
  m.def("stop_if_ending", [] { const GilRelease without_gil; });
  type.def(
      "end",
      [](World& world, bool wait) {
        GilRelease without_gil;
        world.end(wait);
        await_other_threads(5);
      },
      "wait"_a);
  type.def("end_iterators", &World::end_iterators, nb::call_guard<GilRelease>());
  type.def("leak", [](const World& world) { new World(world); });  // for a forked process, which cannot end the world
  type.def("seed", &World::seed, nb::call_guard<GilRelease>());
  type.def("held_bytes", &World::held_bytes);
  type.def("mesh",
           [](const World& world, std::vector<std::pair<std::string, int>> axes, int first, std::vector<int> devices) {
             std::vector<MeshAxis> list;
             for (auto& [name, size] : axes) list.push_back({std::move(name), size});
             return world.mesh(std::move(list), {first, std::move(devices)});
           });
  init_variables(type);
  init_files(type);
  nb::class_<DeviceMesh>(m, "DeviceMesh")
      .def("__repr__", [](const DeviceMesh& mesh) { return sbp::print(mesh.mesh); })
      .def("same", [](const DeviceMesh& mesh,
                      const DeviceMesh& other) { return mesh.world == other.world && mesh.mesh == other.mesh; })
      .def_prop_ro("axes", [](const DeviceMesh& mesh) {
        std::vector<std::pair<std::string, int>> out;
        for (const MeshAxis& axis : mesh.mesh.axes) out.emplace_back(axis.name, axis.size);
        return out;
      });
  m.def("parse_mesh", [](const std::string& text) {
    std::vector<std::pair<std::string, int>> out;
    for (const MeshAxis& axis : Mesh::parse(text).axes) out.emplace_back(axis.name, axis.size);
    return out;
  });
}

}  // namespace karez::python
