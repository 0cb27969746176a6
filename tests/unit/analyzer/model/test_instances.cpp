// SPDX-License-Identifier: Apache-2.0
// Entries of one DataLoader: one loader where its epochs follow each other, several where they alternate.
#include "analyzer/model/instances.h"

#include <gtest/gtest.h>

namespace gpuwatch::model {
namespace {

using trace::OpClass;

class InstancesTest : public testing::Test {
 protected:
  InstancesTest() {
    run_.processes.resize(2);
    run_.processes[1].parent = 0;
    for (Process& process : run_.processes) process.threads.resize(1);
    add_loader(5, 0);
    add_loader(9, 1);
  }
  void add_loader(uint32_t id, uint32_t instance) {
    Loader& loader = run_.processes[0].loaders.emplace_back();
    loader.id = id;
    loader.instance = instance;
    loader.class_name = "DataLoader";
    loader.num_workers = 2;
  }
  void call(OpClass op_class, uint32_t loader, uint32_t process = 0) {
    time_ += 10;
    HostCall call{};
    call.begin = time_;
    call.end = time_ + 5;
    call.correlation_or_object = loader;
    call.op_class = op_class;
    run_.processes[process].threads[0].calls.push_back(call);
  }
  size_t join() {
    join_instances(run_, {&tables_[0], &tables_[1]});
    return run_.processes[0].loaders.size();
  }
  uint32_t loader_of(size_t index, uint32_t process = 0) {
    return run_.processes[process].threads[0].calls.at(index).correlation_or_object;
  }

  model::Run run_;
  ProcessTables tables_[2];
  Ns time_ = 0;
};

TEST_F(InstancesTest, EpochsThatAreLeftBeforeTheirEndAreOneLoader) {
  for (const uint32_t id : {5u, 9u, 5u, 9u}) {
    call(OpClass::LoaderStart, id);
    for (int i = 0; i < 3; ++i) call(OpClass::LoaderNext, id);
  }
  call(OpClass::Fetch, 9, 1);  // a worker
  call(OpClass::Launch, 9);    // a correlation id, no loader
  tables_[0].workers = {{9, 0, 77}};
  EXPECT_EQ(join(), 1u);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(loader_of(i), 5u);
  EXPECT_EQ(loader_of(16), 9u);
  EXPECT_EQ(loader_of(0, 1), 5u);
  EXPECT_EQ(tables_[0].workers[0].loader, 5u);
}

// Three iterators: what is asked of the third is compared with what was asked of the first two.
TEST_F(InstancesTest, AnIteratorFollowsAllThatWereJoinedBefore) {
  add_loader(12, 2);
  for (const uint32_t id : {5u, 9u, 12u, 5u, 12u}) {
    call(OpClass::LoaderStart, id);
    for (int i = 0; i < 3; ++i) call(OpClass::LoaderNext, id);
  }
  tables_[0].workers = {{12, 0, 77}};
  EXPECT_EQ(join(), 1u);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(loader_of(i), 5u);
  EXPECT_EQ(tables_[0].workers[0].loader, 5u);
}

TEST_F(InstancesTest, AnIteratorThatInterruptsAJoinedOneStaysApart) {
  add_loader(12, 2);
  for (const uint32_t id : {5u, 9u, 12u}) {
    call(OpClass::LoaderStart, id);
    call(OpClass::LoaderNext, id);
  }
  call(OpClass::LoaderNext, 9);
  EXPECT_EQ(join(), 2u);
  EXPECT_EQ(loader_of(5), 12u);
  EXPECT_EQ(loader_of(6), 5u);
}

TEST_F(InstancesTest, IteratorsAskedInTurnsStayApart) {
  call(OpClass::LoaderStart, 5);
  call(OpClass::LoaderStart, 9);
  for (int i = 0; i < 3; ++i) {
    call(OpClass::LoaderNext, 5);
    call(OpClass::LoaderNext, 9);
  }
  EXPECT_EQ(join(), 2u);
  EXPECT_EQ(loader_of(3), 9u);
}

TEST_F(InstancesTest, OneThatGoesOnAfterTheOtherBeganStaysApart) {
  call(OpClass::LoaderStart, 5);
  call(OpClass::LoaderNext, 5);
  call(OpClass::LoaderStart, 9);
  call(OpClass::LoaderNext, 9);
  call(OpClass::LoaderNext, 5);
  EXPECT_EQ(join(), 2u);
}

TEST_F(InstancesTest, OtherSettingsAreAnotherLoader) {
  run_.processes[0].loaders[1].num_workers = 4;
  for (const uint32_t id : {5u, 9u}) {
    call(OpClass::LoaderStart, id);
    call(OpClass::LoaderNext, id);
  }
  EXPECT_EQ(join(), 2u);
}

TEST_F(InstancesTest, WithoutABeginNothingIsKnown) {
  call(OpClass::LoaderNext, 5);
  call(OpClass::LoaderNext, 9);
  EXPECT_EQ(join(), 2u);
}

// Federated learning makes the DataLoader of each client anew in each round, at one line.
class RemadeTest : public InstancesTest {
 protected:
  RemadeTest() {
    for (uint32_t i = 0; Loader & loader : run_.processes[0].loaders) {
      loader.instance = 0;
      loader.location = "train.py:40";
      loader.batches = 3 + i++;  // the clients' data differ in length
    }
  }
  void train(uint32_t id, bool with_steps = true) {
    call(OpClass::LoaderStart, id);
    for (int i = 0; i < 3; ++i) {
      call(OpClass::LoaderNext, id);
      if (with_steps) call(OpClass::OptimizerStep, 77);
    }
  }
};

TEST_F(RemadeTest, ThoseOfOneLineAreOneLoader) {
  train(5), train(9);
  EXPECT_EQ(join(), 1u);
  EXPECT_EQ(run_.processes[0].loaders[0].remade, 1u);
  EXPECT_EQ(loader_of(7), 5u);
}

TEST_F(RemadeTest, ThoseOfTwoLinesAreTwo) {
  run_.processes[0].loaders[1].location = "train.py:44";
  train(5), train(9);
  EXPECT_EQ(join(), 2u);
}

TEST_F(RemadeTest, ManyRoundsAreOneLoader) {
  for (uint32_t id = 100; id < 300; ++id) {
    add_loader(id, 0);
    Loader& loader = run_.processes[0].loaders.back();
    loader.location = "train.py:40";
    loader.batches = int(id);
    train(id);
  }
  for (Loader& loader : run_.processes[0].loaders) loader.location = "train.py:40";
  EXPECT_EQ(join(), 3u);  // the first two were never read
  EXPECT_EQ(run_.processes[0].loaders.back().remade, 199u);
  for (const HostCall& call : run_.processes[0].threads[0].calls)
    EXPECT_EQ(call.correlation_or_object, call.op_class == OpClass::OptimizerStep ? 77u : 100u);
}

// A function that makes loaders makes that of the evaluation at the same line.
TEST_F(RemadeTest, OneThatIsNotTrainedWithStaysApart) {
  train(5), train(9, false);
  EXPECT_EQ(join(), 2u);
  EXPECT_EQ(run_.processes[0].loaders[0].remade, 0u);
}

TEST_F(RemadeTest, ThoseThatKeepTheirWorkersStayApart) {
  for (Loader& loader : run_.processes[0].loaders) loader.persistent_workers = 1;
  train(5), train(9);
  EXPECT_EQ(join(), 2u);
}

TEST(FirstInstances, AnIteratorBesideAnotherBelongsToTheLoaderWithItsSettings) {
  Process process;
  const auto add = [&](const char* location, int workers, uint32_t instance) {
    Loader& loader = process.loaders.emplace_back();
    loader.location = location;
    loader.num_workers = workers;
    loader.instance = instance;
  };
  add("train.py:1", 2, 0), add("train.py:9", 2, 0), add("train.py:1", 2, 1), add("train.py:1", 2, 2);
  add("train.py:9", 4, 1);  // nothing it could belong to
  add("train.py:9", 2, 0);  // another dataset of the same class
  EXPECT_EQ(first_instances(process), (std::vector<uint32_t>{0, 1, 0, 0, 4, 5}));
}

}  // namespace
}  // namespace gpuwatch::model
