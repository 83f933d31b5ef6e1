// Tests of the launcher: the variables of every launcher, the innermost of several launchers, and invalid variables.
#include "karez/comm/rendezvous/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "karez/base/test_error.h"
#include "karez/comm/transport/socket.h"

namespace karez::comm {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Variables = std::map<std::string, std::string>;

JobLaunch launch(const Variables& variables) {
  return launch_from([&](const std::string& name) -> std::optional<std::string> {
    auto variable = variables.find(name);
    return variable == variables.end() ? std::nullopt : std::optional(variable->second);
  });
}
std::string error(const Variables& variables) {
  return error_of([&] { launch(variables); });
}
// Returns `base` with the variables of `other` replaced; the value "-" removes a variable.
Variables with(Variables base, const Variables& other) {
  for (const auto& [name, value] : other)
    if (value == "-") base.erase(name);
    else base[name] = value;
  return base;
}

const std::string hex(64, 'a'), other_hex(64, 'b'), key = "0123456789abcdef-fedcba9876543210";
const Variables karez = {{"KAREZ_RANK", "2"},        {"KAREZ_RANKS", "4"},          {"KAREZ_LOCAL_RANK", "2"},
                         {"KAREZ_LOCAL_RANKS", "4"}, {"KAREZ_STORE", "@karez-abc"}, {"KAREZ_TOKEN", hex}};
const Variables torchrun = {{"RANK", "3"},
                            {"WORLD_SIZE", "4"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "2"},
                            {"MASTER_PORT", "29500"},
                            {"MASTER_ADDR", "alpha"},
                            {"KAREZ_TOKEN", hex}};
const Variables open_mpi = {{"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"PMIX_NAMESPACE", "3071279105"},    {"OMPI_MCA_orte_precondition_transports", key}};
const Variables slurm = {{"SLURM_STEP_ID", "0"},     {"SLURM_PROCID", "5"},
                         {"SLURM_NTASKS", "6"},      {"SLURM_STEP_NUM_TASKS", "6"},
                         {"SLURM_JOB_ID", "71"},     {"SLURM_NODEID", "2"},
                         {"SLURM_LOCALID", "1"},     {"SLURM_STEP_TASKS_PER_NODE", "2(x3)"},
                         {"KAREZ_TOKEN", other_hex}, {"SLURM_STEP_NODELIST", "gpu[07-08],login"}};

TEST(Launcher, WithoutALauncherThereIsOneRank) {
  for (const Variables& variables :
       {Variables{}, Variables{{"RANK", ""}, {"SLURM_NTASKS", "4"}, {"MASTER_ADDR", "x"}, {"KAREZ_TOKEN", "bad"}}}) {
    JobLaunch out = launch(variables);
    EXPECT_EQ(out.launcher, Launcher::none);
    EXPECT_EQ(std::tuple(out.rank, out.ranks, out.local_rank, out.local_ranks, out.one_host),
              std::tuple(0, 1, 0, 1, true));
    EXPECT_EQ(out.store.host, "");
    EXPECT_FALSE(out.token || out.devices || out.crowded || out.interface);
    EXPECT_THAT(out.ignored, IsEmpty());
  }
}

TEST(Launcher, EveryVariableOfKarezRunIsRead) {
  JobLaunch out = launch(with(karez, {{"KAREZ_DEVICES", "3"}, {"KAREZ_CROWDED", "1"}, {"KAREZ_INTERFACE", "eth1"}}));
  EXPECT_EQ(out.launcher, Launcher::karez_run);
  EXPECT_EQ(std::tuple(out.rank, out.ranks, out.local_rank, out.local_ranks, out.one_host),
            std::tuple(2, 4, 2, 4, true));
  EXPECT_EQ(out.store, (Address{"@karez-abc", 0}));
  EXPECT_EQ(out.token, parse_token(hex));
  EXPECT_EQ(out.token_source, "karez run");
  EXPECT_EQ(out.devices, 3);
  EXPECT_EQ(out.crowded, true);
  EXPECT_EQ(out.interface, "eth1");
  EXPECT_EQ(out.rank_variables, "KAREZ_RANK=2 KAREZ_RANKS=4");
  out = launch(with(karez, {{"KAREZ_LOCAL_RANK", "0"},
                            {"KAREZ_LOCAL_RANKS", "2"},
                            {"KAREZ_STORE", "[fe80::1]:4711"},
                            {"KAREZ_CROWDED", "0"}}));
  EXPECT_EQ(std::tuple(out.local_rank, out.local_ranks, out.one_host), std::tuple(0, 2, false));
  EXPECT_EQ(out.store, (Address{"fe80::1", 4711}));
  EXPECT_EQ(out.crowded, false);
}

TEST(Launcher, TorchrunsVariablesNameTheHostAndThePort) {
  JobLaunch out = launch(torchrun);
  EXPECT_EQ(out.launcher, Launcher::torchrun);
  EXPECT_EQ(std::tuple(out.rank, out.ranks, out.local_rank, out.local_ranks, out.one_host),
            std::tuple(3, 4, 1, 2, false));
  EXPECT_EQ(out.store, (Address{"alpha", 29500}));
  EXPECT_EQ(out.token, parse_token(hex));
  EXPECT_EQ(out.token_source, "KAREZ_TOKEN");
  EXPECT_EQ(launch(with(torchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).store.port, 29501)
      << "the store of torchrun's agent uses the given port";
  EXPECT_EQ(launch(with(torchrun, {{"KAREZ_PORT", "5000"}})).store.port, 5000);
}

TEST(Launcher, OnOneHostTheStoreIsNamedAfterTheJob) {
  const Variables one_host = with(torchrun, {{"LOCAL_WORLD_SIZE", "4"}, {"KAREZ_TOKEN", "-"}});
  JobLaunch out = launch(one_host);
  EXPECT_TRUE(out.one_host);
  EXPECT_FALSE(out.token) << "one host needs no token";
  EXPECT_EQ(out.token_source, "");
  EXPECT_THAT(out.store.host, StartsWith("@karez-"));
  EXPECT_EQ(launch(with(one_host, {{"RANK", "1"}, {"LOCAL_RANK", "-"}})).store, out.store)
      << "all ranks must use the same store";
  for (const char* name : {"MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"})
    EXPECT_NE(launch(with(one_host, {{name, "1234"}})).store, out.store)
        << "a different job must use a different store";
  JobLaunch local =
      launch(with(one_host, {{"LOCAL_WORLD_SIZE", "-"}, {"LOCAL_RANK", "-"}, {"MASTER_ADDR", "127.0.0.1"}}));
  EXPECT_EQ(std::tuple(local.local_rank, local.local_ranks, local.one_host), std::tuple(3, 4, true))
      << "loopback means one host";
  JobLaunch unknown = launch(with(torchrun, {{"LOCAL_WORLD_SIZE", "-"}, {"LOCAL_RANK", "-"}}));
  EXPECT_EQ(std::tuple(unknown.local_rank, unknown.local_ranks, unknown.one_host), std::tuple(-1, 0, false));
}

TEST(Launcher, OpenMpisTransportKeyBecomesTheToken) {
  JobLaunch out = launch(open_mpi);
  EXPECT_EQ(out.launcher, Launcher::open_mpi);
  EXPECT_EQ(std::tuple(out.rank, out.ranks, out.local_rank, out.local_ranks, out.one_host),
            std::tuple(1, 4, 1, 4, true));
  EXPECT_EQ(out.token, derive_token(key));
  EXPECT_EQ(out.token_source, "Open MPI's transport key");
  EXPECT_THAT(out.store.host, StartsWith("@karez-"));
  EXPECT_THAT(out.store.host, ::testing::Not(HasSubstr("01234567"))) << "the key is not revealed";
  EXPECT_NE(launch(with(open_mpi, {{"PMIX_NAMESPACE", "3071279106"}})).store, out.store);
  JobLaunch with_token = launch(with(open_mpi, {{"KAREZ_TOKEN", hex}}));
  EXPECT_EQ(with_token.token, parse_token(hex));
  EXPECT_EQ(with_token.token_source, "KAREZ_TOKEN");
  JobLaunch without_key = launch(with(open_mpi, {{"OMPI_MCA_orte_precondition_transports", "-"}}));
  EXPECT_FALSE(without_key.token);
  JobLaunch two_hosts = launch(with(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"MASTER_ADDR", "10.0.0.7"}}));
  EXPECT_FALSE(two_hosts.one_host);
  EXPECT_EQ(two_hosts.store.host, "10.0.0.7");
  EXPECT_GE(two_hosts.store.port, 15000);
  EXPECT_LT(two_hosts.store.port, 30000);
  EXPECT_EQ(launch(with(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"MASTER_ADDR", "x"}, {"MASTER_PORT", "77"}}))
                .store.port,
            77);
}

TEST(Launcher, WithOpenMpiOnSeveralHostsTheStoreIsPublishedThroughPmix) {
  const Variables several_hosts = with(
      open_mpi,
      {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"PMIX_RANK", "1"}, {"PMIX_SERVER_URI41", "1.0;tcp4://127.0.0.1:4711"}});
  JobLaunch out = launch(several_hosts);
  EXPECT_TRUE(out.uses_pmix && !out.one_host);
  EXPECT_EQ(store_address(out, 3), (Address{"", 0}));
  EXPECT_FALSE(launch(with(several_hosts, {{"MASTER_ADDR", "alpha"}})).uses_pmix)
      << "an explicit host takes precedence";
  EXPECT_FALSE(launch(with(several_hosts, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}})).uses_pmix)
      << "one host does not need PMIx";
  EXPECT_THAT(error(with(several_hosts, {{"PMIX_RANK", "-"}})), HasSubstr("the host of rank 0 is unknown"));
}

TEST(Launcher, TheStoreOfASlurmStepIsOnItsFirstHost) {
  JobLaunch out = launch(slurm);
  EXPECT_EQ(out.launcher, Launcher::slurm);
  EXPECT_EQ(std::tuple(out.rank, out.ranks, out.local_rank, out.local_ranks, out.one_host),
            std::tuple(5, 6, 1, 2, false));
  EXPECT_EQ(out.store.host, "gpu07");
  EXPECT_EQ(launch(with(slurm, {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "0"}})).store,
            out.store);
  EXPECT_NE(launch(with(slurm, {{"SLURM_STEP_ID", "1"}})).store.port, out.store.port);
  EXPECT_EQ(launch(with(slurm, {{"MASTER_ADDR", "ib0-gpu07"}})).store.host, "ib0-gpu07");
  JobLaunch one_host = launch(with(
      slurm, {{"SLURM_STEP_NODELIST", "gpu9"}, {"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "5"}, {"KAREZ_TOKEN", "-"}}));
  EXPECT_EQ(std::tuple(one_host.local_rank, one_host.local_ranks, one_host.one_host), std::tuple(5, 6, true));
  EXPECT_THAT(one_host.store.host, StartsWith("@karez-"));
  EXPECT_EQ(launch(with(slurm, {{"SLURM_STEP_NUM_TASKS", "-"}})).ranks, 6);
  JobLaunch unknown = launch(with(slurm, {{"SLURM_STEP_TASKS_PER_NODE", "-"}}));
  EXPECT_EQ(std::tuple(unknown.local_rank, unknown.local_ranks), std::tuple(1, 0));
}

TEST(Launcher, ABatchScriptIsNotALaunchedStep) {
  EXPECT_EQ(launch(with(slurm, {{"SLURM_STEP_ID", "-"}})).launcher, Launcher::none);
  for (const char* id : {"4294967291", "4294967290"})
    EXPECT_EQ(launch(with(slurm, {{"SLURM_STEP_ID", id}})).launcher, Launcher::none) << id;
}

TEST(Launcher, TheInnermostLauncherAppliesAndTheOthersAreListed) {
  Variables variables = with(with(with(slurm, open_mpi), torchrun), karez);
  EXPECT_EQ(launch(variables).launcher, Launcher::karez_run);
  EXPECT_THAT(launch(variables).ignored, ElementsAre("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"));
  EXPECT_EQ(launch(variables).rank, 2);
  variables = with(with(slurm, open_mpi), torchrun);
  EXPECT_EQ(launch(variables).launcher, Launcher::torchrun);
  EXPECT_EQ(launch(variables).token_source, "KAREZ_TOKEN") << "the key of Open MPI belongs to a different launcher";
  EXPECT_THAT(launch(variables).ignored, ElementsAre("OMPI_COMM_WORLD_RANK", "SLURM_PROCID"));
  EXPECT_FALSE(launch(with(variables, {{"KAREZ_TOKEN", "-"}, {"LOCAL_WORLD_SIZE", "4"}})).token)
      << "the key is not used on one host either";
  variables = with(slurm, open_mpi);
  EXPECT_EQ(launch(variables).launcher, Launcher::open_mpi);
  EXPECT_THAT(launch(variables).ignored, ElementsAre("SLURM_PROCID"));
  EXPECT_EQ(launch(with(variables, {{"SLURM_PROCID", "garbage"}, {"SLURM_STEP_ID", "x"}})).rank, 1)
      << "ignored variables are not read";
  EXPECT_THAT(launch(slurm).ignored, IsEmpty());
}

TEST(Launcher, TheStartupLineContainsTheLauncher) {
  EXPECT_EQ(startup_line(launch(with(open_mpi, {{"SLURM_PROCID", "1"}})), 1, "shm+tcp"),
            "karez: 4 ranks x 1 device, from Open MPI, links shm+tcp; ignored: SLURM_PROCID");
  EXPECT_EQ(startup_line(launch(karez), 2, "shm"), "karez: 4 ranks x 2 devices, from karez run, links shm");
  EXPECT_EQ(startup_line(launch({}), 4, ""), "karez: 1 rank x 4 devices");
}

TEST(Launcher, EachWorldOfAProcessHasItsOwnStore) {
  EXPECT_EQ(store_address(launch(karez), 0).host, "@karez-abc-0");
  EXPECT_EQ(store_address(launch(karez), 12).host, "@karez-abc-12");
  EXPECT_EQ(store_address(launch(torchrun), 3), (Address{"alpha", 29503}));
  EXPECT_EQ(store_address(launch(torchrun), 7 + 8), (Address{"alpha", 29507}));
  EXPECT_THAT(error_of([] {
                store_address(launch(with(torchrun, {{"KAREZ_PORT", "65535"}})), 1);
              }),
              HasSubstr("set KAREZ_PORT to a lower one"));
}

TEST(Launcher, ErrorsShowTheInvalidVariables) {
  struct {
    Variables variables;
    std::string message;
  } const cases[] = {
      {with(torchrun, {{"WORLD_SIZE", "-"}}), "RANK is 3, but WORLD_SIZE is not set; both are required"},
      {with(torchrun, {{"RANK", "-"}}), "WORLD_SIZE is 4, but RANK is not set; both are required"},
      {with(torchrun, {{"RANK", "4"}}), "RANK is 4, but WORLD_SIZE is 4; ranks begin at 0"},
      {with(torchrun, {{"RANK", "-1"}}), "RANK is '-1'; it must be a number from 0 to 1048575"},
      {with(torchrun, {{"RANK", "2 "}}), "RANK is '2 '; it must be a number from 0 to 1048575"},
      {with(torchrun, {{"WORLD_SIZE", "four"}}), "WORLD_SIZE is 'four'; it must be a number from 1 to 1048576"},
      {with(torchrun, {{"WORLD_SIZE", "99999999999999999999"}}),
       "WORLD_SIZE is '99999999999999999999'; it must be a number from 1 to 1048576"},
      {with(torchrun, {{"LOCAL_RANK", "2"}}), "LOCAL_RANK is 2, but LOCAL_WORLD_SIZE is 2; ranks begin at 0"},
      {with(torchrun, {{"RANK", "0"}}), "LOCAL_RANK is 1, but the global rank is 0 (RANK=0 WORLD_SIZE=4)"},
      {with(torchrun, {{"LOCAL_WORLD_SIZE", "5"}}),
       "LOCAL_WORLD_SIZE is 5, but there are 4 ranks (RANK=3 WORLD_SIZE=4)"},
      {with(torchrun, {{"MASTER_ADDR", "-"}}), "RANK is 3, but MASTER_ADDR is not set; both are required"},
      {with(torchrun, {{"MASTER_PORT", "-"}}), "RANK is 3, but MASTER_PORT is not set; both are required"},
      {with(torchrun, {{"MASTER_PORT", "70000"}}), "MASTER_PORT is '70000'; it must be a number from 1 to 65534"},
      {with(torchrun, {{"KAREZ_TOKEN", "-"}}), "4 ranks on several hosts (RANK=3 WORLD_SIZE=4) have no token"},
      {with(torchrun, {{"KAREZ_TOKEN", "feed"}}), "KAREZ_TOKEN: a token is 64 hexadecimal digits"},
      {with(torchrun, {{"KAREZ_DEVICES", "0"}}), "KAREZ_DEVICES is '0'; it must be a number from 1 to 1048576"},
      {with(torchrun, {{"KAREZ_CROWDED", "yes"}}), "KAREZ_CROWDED is 'yes'; it must be a number from 0 to 1"},
      {with(karez, {{"KAREZ_RANKS", "-"}}), "KAREZ_RANK is 2, but KAREZ_RANKS is not set; both are required"},
      {with(karez, {{"KAREZ_STORE", "-"}}), "KAREZ_RANK is 2, but KAREZ_STORE is not set; both are required"},
      {with(karez, {{"KAREZ_TOKEN", "-"}}), "KAREZ_RANK is 2, but KAREZ_TOKEN is not set; both are required"},
      {with(karez, {{"KAREZ_STORE", "alpha"}}),
       "KAREZ_STORE is 'alpha'; it must have the form @name, alpha:4711 or [::1]:4711"},
      {with(karez, {{"KAREZ_STORE", "alpha:0"}}), "KAREZ_STORE is 'alpha:0'; it must have the form"},
      {with(karez, {{"KAREZ_LOCAL_RANKS", "3"}}),
       "KAREZ_STORE is @karez-abc, which is visible on one host only, but 3 of 4 ranks are on this one"},
      {with(open_mpi, {{"OMPI_COMM_WORLD_SIZE", "-"}}),
       "OMPI_COMM_WORLD_RANK is 1, but OMPI_COMM_WORLD_SIZE is not set; both are required"},
      {with(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
       "Open MPI runs the 4 ranks on several hosts, but the host of rank 0 is unknown"},
      {with(open_mpi, {{"PMIX_NAMESPACE", "-"}, {"OMPI_MCA_orte_precondition_transports", "-"}}),
       "neither PMIX_NAMESPACE nor OMPI_MCA_ess_base_jobid"},
      {with(open_mpi, {{"OMPI_MCA_orte_precondition_transports", "short"}}),
       "OMPI_MCA_orte_precondition_transports has 5 characters"},
      {with(slurm, {{"SLURM_NTASKS", "8"}}), "SLURM_STEP_NUM_TASKS is 6, but SLURM_NTASKS is 8"},
      {with(slurm, {{"SLURM_PROCID", "-"}}),
       "SLURM_STEP_NUM_TASKS is 6, but SLURM_PROCID is not set; both are required"},
      {with(slurm, {{"SLURM_PROCID", "-"}, {"SLURM_NTASKS", "-"}, {"SLURM_STEP_NUM_TASKS", "-"}}),
       "SLURM_PROCID is not set; both are required"},
      {with(slurm, {{"SLURM_JOB_ID", "-"}}), "SLURM_STEP_ID is 0, but SLURM_JOB_ID is not set; both are required"},
      {with(slurm, {{"SLURM_STEP_ID", "batch"}}), "SLURM_STEP_ID is 'batch'; it must be a number from 0 to 4294967295"},
      {with(slurm, {{"SLURM_STEP_ID", "4294967296"}}),
       "SLURM_STEP_ID is '4294967296'; it must be a number from 0 to 4294967295"},
      {with(slurm, {{"SLURM_STEP_NODELIST", "-"}}),
       "SLURM_STEP_ID is 0, but SLURM_STEP_NODELIST is not set; both are required"},
      {with(slurm, {{"SLURM_STEP_NODELIST", "gpu[1-"}}), "'gpu[1-' is not a Slurm host list"},
      {with(slurm, {{"SLURM_NODEID", "3"}}), "SLURM_NODEID is 3, but SLURM_STEP_NODELIST names 3 hosts"},
      {with(slurm, {{"SLURM_LOCALID", "2"}}), "SLURM_LOCALID is 2, but only 2 ranks are on this node"},
      {with(slurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x"}}), "'2(x' is not a Slurm list of task counts"},
  };
  for (const auto& [variables, message] : cases) EXPECT_THAT(error(variables), HasSubstr(message));
}

TEST(Ports, PortsOfAJobAreFree) {
  const int port = free_ports();
  EXPECT_GE(port, 15000);
  for (int candidate = port; candidate < port + ports_per_job; ++candidate) {
    Address address{"127.0.0.1", candidate};
    EXPECT_NO_THROW(listen_at(address, 1)) << candidate;
  }
  EXPECT_EQ(free_ports(port, port + 1), port);
  for (int taken = port; taken < port + ports_per_job; ++taken) {
    Address address{"0.0.0.0", taken};
    const Descriptor listener = listen_at(address, 1);
    EXPECT_THAT(error_of([&] { free_ports(port, port + 1); }), HasSubstr(cat("no 8 consecutive ports from ", port)))
        << taken;
  }
}

}  // namespace
}  // namespace karez::comm
