// Trains a small CNN (or MLP) on Fashion-MNIST on a mesh of logical devices. The models do not depend on the devices.
#include <algorithm>
#include <cstdio>
#include <fstream>

#include <karez/karez.h>

using namespace karez;

namespace {

struct Cnn : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 1, 16, 3}, conv2{*this, "conv2", 16, 32, 3};
  nn::Linear fc1{*this, "fc1", 32 * 5 * 5, 128}, fc2{*this, "fc2", 128, 10};

  Tensor operator()(Tensor x) {
    x = max_pool(relu(conv1(x)), 2);
    x = max_pool(relu(conv2(x)), 2);
    return fc2(relu(fc1(flatten(x))));
  }
};

struct Mlp : nn::Module {
  nn::Linear fc1{*this, "fc1", 28 * 28, 256}, fc2{*this, "fc2", 256, 128}, fc3{*this, "fc3", 128, 100},
      fc4{*this, "fc4", 100, 10};

  Tensor operator()(Tensor x) { return fc4(relu(fc3(relu(fc2(relu(fc1(flatten(x)))))))); }
};

const std::vector<Option> known = {
    {"data", "/usr/share/datasets/fashion-mnist", "directory of the IDX files"},
    {"model", "cnn", "cnn or mlp"},
    {"mesh", "", "axes and sizes, such as data=2,model=2; default: one device"},
    {"devices", "", "number of logical devices; default: as many as the mesh has"},
    {"epochs", "", "default: 3 for the CNN, 8 for the MLP"},
    {"batch", "64", "images per step"},
    {"optimizer", "adam", "adam or sgd (with momentum 0.9)"},
    {"lr", "", "learning rate; default: 2e-3 for adam, 2e-2 for sgd"},
    {"seed", "1", "seed of the initial weights and of the order of the images"},
    {"plan", "", "file for the plan's text"},
    {"losses", "", "file for the loss of every step"},
    {"report", "", "file for a report on the plan: memory, transfers, critical cycle"},
};

constexpr float mean = 0.2860f, deviation = 0.3530f;  // of the pixels of the training images

data::Dataset labelled_images(const Options& options, const char* part) {
  return data::from_labelled_images(options.text("data"), part, {.mean = mean, .deviation = deviation});
}

template <class Model> void train(const Options& options, std::int64_t epochs) {
  std::int64_t batch = options.integer("batch", 1);
  auto seed = static_cast<std::uint64_t>(options.integer("seed", 0));
  Mesh shape = Mesh::parse(options.text("mesh"));
  int devices =
      options.text("devices").empty() ? shape.size() : static_cast<int>(options.integer("devices", 1, 1 << 24));
  World world({.devices = devices, .seed = seed});
  DeviceMesh mesh = world.mesh(shape.axes);

  data::Dataset images = labelled_images(options, "train"), tests = labelled_images(options, "t10k");
  DataIterator batches = world.iterate(images.shuffle({.seed = seed}).batch(batch, data::LastBatch::drop));
  DataIterator test_batches = world.iterate(tests.batch(256, data::LastBatch::pad));
  std::int64_t per_epoch = *images.size() / batch;
  require(per_epoch > 0, "option --batch must be at most ", *images.size(), ", the number of training images; got ",
          batch);

  const std::string& plan_file = options.text("plan");
  std::ofstream plan;
  if (!plan_file.empty()) {  // opened now, so that an error is reported before the training starts
    require(epochs > 0, "option --plan needs at least one epoch");
    plan.open(plan_file);
    require(plan.good(), "cannot write the plan to '", plan_file, "'");
  }

  Model net;
  bool adaptive = options.one_of("optimizer", {"adam", "sgd"}) == "adam";
  double lr = options.text("lr").empty() ? (adaptive ? 2e-3 : 2e-2) : options.real("lr");
  optim::Adam adam(net.parameters(), {.lr = lr});
  optim::SGD sgd(net.parameters(), {.lr = lr, .momentum = 0.9});

  auto step = compile(mesh, [&](Tensor x, Tensor y) {
    Tensor loss = cross_entropy(net(x), y);
    auto gradients = grad(loss, net.parameters());
    if (adaptive) adam.step(gradients);
    else sgd.step(gradients);
    return loss;
  });
  auto correct = compile(mesh, [&](Tensor x, Tensor y, Tensor w) { return correct_count(net(x), y, w); },
                         {.train = false, .name = "evaluate"});

  std::int64_t steps = epochs * per_epoch;
  Progress progress(steps, batch);
  std::vector<double> losses;
  for (std::int64_t epoch = 1, i = 0; epoch <= epochs; ++epoch) {
    while (auto b = batches.next_partial()) {
      double now = lr * std::min(1.0, 2.0 * static_cast<double>(steps - i) /
                                          static_cast<double>(steps));  // falls to zero over the second half
      adaptive ? adam.set_lr(now) : sgd.set_lr(now);
      Tensor loss = step(tensor_of(*b, 0), tensor_of(*b, 1));
      losses.push_back(loss.item());
      progress.show(++i, epoch, losses.back());
    }
  }
  progress.finish();
  if (const std::string& file = options.text("losses"); !file.empty()) {
    std::ofstream out(file);
    for (double loss : losses) out << cat(loss) << "\n";
    require(out.flush().good(), "cannot write the losses to '", file, "'");
  }

  double right = 0;
  while (auto b = test_batches.next_partial())
    right += correct(tensor_of(*b, 0), tensor_of(*b, 1), tensor_of(*b, 2)).only().item();
  std::printf("accuracy %.4f on %lld test images\n", right / static_cast<double>(*tests.size()),
              static_cast<long long>(*tests.size()));

  if (steps == 0) return;
  std::printf(
      "\nThe training step is one plan for %d devices, made before the first step:\n"
      "  memory     at most %.2f MiB on a device, parameters and optimizer state included\n"
      "  step       predicted at %.2f ms from the cost of each kernel and transfer\n"
      "  layouts    %s\n"
      "`--report FILE` writes where memory, transfers and time go; docs/tools.md explains the tables.\n",
      shape.size(), static_cast<double>(step.peak_bytes()) / 1048576, 1e3 * step.predicted_seconds(),
      step.shard_report().c_str());
  if (const std::string& file = options.text("report"); !file.empty()) {
    std::ofstream out(file);
    require((out << step.summary()).flush().good(), "cannot write the report to '", file, "'");
  }
  if (!plan_file.empty())
    require((plan << step.plan_text()).flush().good(), "cannot write the plan to '", plan_file, "'");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options options(known);
    if (!options.read(argc, argv))
      return std::printf("fashion_mnist [--option value]...\n%s", options.help().c_str()), 0;
    bool cnn = options.one_of("model", {"cnn", "mlp"}) == "cnn";
    std::int64_t epochs = options.text("epochs").empty() ? (cnn ? 3 : 8) : options.integer("epochs", 0, 1 << 20);
    cnn ? train<Cnn>(options, epochs) : train<Mlp>(options, epochs);
  } catch (const Error& error) {
    std::fprintf(stderr, "fashion_mnist: %s\n", error.what());
    return exit_code(error.kind);
  }
  return 0;
}
