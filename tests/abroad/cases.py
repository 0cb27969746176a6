# SPDX-License-Identifier: Apache-2.0
"""The programs, how each is started with its defect, and what its user could change. Which of the changes is right is not
written here: truth.py finds it by applying all of them (truth.json)."""

from abroad_case import Case, fix

WORKERS = "dataloader-workers"


def workers(option, *numbers):
    """More loader processes (or threads): whatever number the report names can be tried."""
    return [fix(WORKERS, f"{option} {number}", num_workers=option) for number in numbers]


PREFETCH = "--prefetch-factor"
NO_TF = {"USE_TF": "0", "USE_FLAX": "0"}  # transformers imports what it finds, and does not like this Keras
PRECISION = "mixed-precision"

INPUT = [
    Case("imagenet-folder", "imagenet_folder.py", ("{data}",), [*workers("--workers", 1, 2, 4), fix("input-decode", "--draft")], data="photos"),
    Case("http-objects", "http_objects.py", ("{url}",),
         [*workers("--workers", 4, 8, 16), fix("dataloader-prefetch", "--prefetch-factor 8", prefetch_factor=PREFETCH), fix(("input-remote-storage", "input-cacheable"), "--cache")],
         data="objects", store_ms=15, status="seen"),
    Case("sqlite-rows", "sqlite_rows.py", ("--database", "{data}/rows.db"), [*workers("--workers", 1, 2, 4), fix("input-decode", "--connect-once")], data="rows", status="seen"),
    Case("small-files-remote", "small_files.py", ("--data", "{data}"), [*workers("--workers", 2, 4, 8), fix(("input-small-files", "input-remote-storage"), "--packed")],
         data="records", mount={"open_us": 2000, "read_us": 800}, status="seen"),
    Case("webdataset-tars", "webdataset_tars.py", ("--shards", "{data}/train-{{0000..0007}}.tar"), workers("--workers", 1, 2, 4), data="tars", package="webdataset", status="seen"),
    Case("mds-streaming", "mds_streaming.py", ("--local", "{data}"), [*workers("--num-workers", 2, 4, 6), fix("dataloader-prefetch", "--prefetch-factor 8", prefetch_factor=PREFETCH)],
         data="mds", package="mosaicml-streaming"),
    Case("trainer-tokenize", "trainer_text.py", ("--texts", "{data}/train.jsonl", "--pad-to-max-length"),
         [*workers("--dataloader-num-workers", 1, 2), fix("input-decode", "--map"), fix("padding-waste", "--no-pad-to-max-length"), fix("padding-waste", "--no-pad-to-max-length --group-by-length")],
         data="sentences", env=NO_TF, package="transformers, datasets", side="script", status="seen"),
    Case("lightning-short-epochs", "lightning_short_epochs.py", (),
         [fix("dataloader-persistent-workers", "--persistent-workers"), *workers("--num-workers", 1, 2), fix(WORKERS, "--num-workers 0")], package="lightning", status="seen"),
    Case("audio-spectrograms", "audio_spectrograms.py", ("--clips", "{data}"), [*workers("--num-workers", 1, 2), fix(("input-cacheable", "input-decode"), "--cache-features")], data="sounds", status="seen"),
    Case("queue-prefetch", "queue_prefetch.py", (), [*workers("--readers", 2, 4, 8), fix("dataloader-prefetch", "--queue-size 64", prefetch_factor="--queue-size")]),
    Case("iterable-uneven", "iterable_uneven.py", (),
         [fix("dataloader-head-of-line", "--out-of-order"), *workers("--workers", 6, 8), fix("dataloader-prefetch", "--prefetch-factor 8", prefetch_factor=PREFETCH)]),
    Case("simclr-views", "simclr_views.py", ("--data", "{data}"), [*workers("--workers", 1, 2, 4), fix(("input-cacheable", "input-decode"), "--images-in-memory")], data="photos", status="seen"),
    Case("detection-lists", "detection_lists.py", (), [fix("collate-cost", "--tensors"), *workers("--workers", 2, 4)], status="seen"),
    Case("shard-bursts", "shard_bursts.py", (),
         [fix("dataloader-prefetch", "--prefetch-factor 16", prefetch_factor=PREFETCH), *workers("--workers", 2, 4)], status="seen"),
    Case("fastai-photos", "fastai_photos.py", ("--path", "{data}"), workers("--num-workers", 1, 2, 4), data="photos", package="fastai", status="seen"),
    Case("skorch-service", "skorch_scores.py", (), workers("--num-workers", 1, 2, 4, 8), package="skorch"),
    Case("geometric-graphs", "geometric_graphs.py", (), [*workers("--num-workers", 1, 2), fix(("input-cacheable", "input-decode"), "--pre-transform")], package="torch_geometric", status="seen"),
    Case("kaggle-tabular", "kaggle_tabular.py", ("--csv", "{data}/train.csv"), [*workers("--num-workers", 1, 2), fix(("input-decode", "input-cacheable"), "--as-tensors")], data="table", status="seen"),
    Case("h5-volumes", "h5_volumes.py", ("--volumes", "{data}/volumes.h5"), [*workers("--num-workers", 1, 2), fix("input-decode", "--dataset flat")], data="volumes", package="h5py", status="seen"),
    Case("timm-augment", "timm_features.py", ("--photos", "{data}"), workers("--workers", 1, 2, 4), data="photos", package="timm", status="seen"),
    Case("lmdb-features", "lmdb_features.py", ("--lmdb", "{data}/lmdb"), [*workers("--workers", 2, 4), fix(WORKERS, "--workers 0")], data="features", package="lmdb", status="seen"),
    Case("hf-images", "hf_images.py", ("--photos", "{data}"), [*workers("--num-workers", 1, 2), fix(("input-decode", "input-cacheable"), "--materialize")], data="photos", package="datasets", status="seen"),
    Case("accelerate-service", "accelerate_service.py", (), workers("--num-workers", 4, 8), package="accelerate", status="seen"),
]  # fmt: skip

READERS = [
    Case("parquet-clicks", "parquet_clicks.py", ("--parquet", "{data}/clicks.parquet"),
         [fix(("input-decode", "input-cacheable"), "--shuffle groups"), fix("input-decode", "--only-columns"), *workers("--num-workers", 1, 2)], data="clicks", package="pyarrow"),
    Case("ship-masks", "ship_masks.py", ("--data", "{data}"),
         [fix("input-decode", "--group-once"), *workers("--num-workers", 1, 3, 4), fix("dataloader-oversubscribed", "--num-workers 0"), fix("dataloader-prefetch", "--prefetch-factor 8", prefetch_factor=PREFETCH)], data="ships", status="seen"),
    Case("review-stream", "review_stream.py", ("--reviews", "{data}"),
         [fix("dataloader-prefetch", "--prefetch-factor 32", prefetch_factor=PREFETCH), fix("dataloader-prefetch", "--rolling"), *workers("--num-workers", 2, 3), fix(WORKERS, "--num-workers 0")], data="reviews"),
    Case("imbalanced-fraud", "imbalanced_fraud.py", (),
         [fix(("host-work", "input-decode"), "--sampler weighted"), *workers("--num-workers", 2, 4), fix(WORKERS, "--num-workers 0"), fix("dataloader-prefetch", "--prefetch-factor 8", prefetch_factor=PREFETCH), fix("sync-per-step", "--log-every 1000")], status="seen"),
    Case("federated-hospitals", "federated_hospitals.py", (),
         [fix("dataloader-persistent-workers", "--keep-loaders"), *workers("--num-workers", 2, 4), fix(("dataloader-persistent-workers", "dataloader-oversubscribed"), "--num-workers 0"), fix("dataloader-prefetch", "--prefetch-factor 8", prefetch_factor=PREFETCH)], status="seen"),
    Case("zipped-signs", "zipped_signs.py", ("--archive", "{data}/signs.zip"), [*workers("--num-workers", 1, 2, 4, 8), fix(("input-remote-storage", "input-cacheable"), "--in-memory")],
         data="zipped", mount={"open_us": 1000, "read_us": 1000}, status="seen"),
    Case("neural-cf", "neural_cf.py", (),
         [*workers("--num-workers", 1, 2), fix("sync-per-step", "--log-every 1000"), fix("evaluation-share", "--evaluate-every 1000")], side="script", status="seen"),
    Case("seismic-picks", "seismic_picks.py", ("--data", "{data}"),
         [*workers("--num-workers", 1, 2, 4), fix("dataloader-prefetch", "--num-workers 1 --prefetch-factor 8", prefetch_factor=PREFETCH), fix("input-decode", "--one-pass")],
         data="seismograms", package="scipy"),
    Case("session-items", "session_items.py", ("--sessions", "{data}/sessions.jsonl"),
         [*workers("--num-workers", 1, 2, 4), fix(("input-cacheable", "input-decode"), "--parse-once"), fix("sync-per-step", "--log-every 1000"),
          fix("small-batch", "--batch-size 128", batch_size="--batch-size")], data="sessions"),
    Case("taxi-trajectories", "taxi_trajectories.py", (),
         [fix("collate-cost", "--collate arrays"), *workers("--num-workers", 2, 4), fix(("collate-cost", "dataloader-oversubscribed"), "--collate arrays --num-workers 0"),
          fix("dataloader-oversubscribed", "--num-workers 0"), fix("dataloader-prefetch", "--prefetch-factor 8", prefetch_factor=PREFETCH), fix("padding-waste", "--bucket")]),
    Case("hyperspectral-pixels", "hyperspectral_pixels.py", ("{data}",),
         [fix(("input-decode", "input-cacheable"), "--load-once"), *workers("--jobs", 1, 2, 4), fix("dataloader-prefetch", "--jobs 2 --prefetch-factor 8", prefetch_factor=PREFETCH),
          fix("small-batch", "--batch-size 64", batch_size="--batch-size")], data="scenes"),
]  # fmt: skip

SCRIPT = [
    Case("lightning-validates", "lightning_validation.py", (), [fix("evaluation-share", "--val-check-interval 1000"), fix("evaluation-share", "--limit-val-batches 5"), *workers("--num-workers", 1)],
         package="lightning", side="script"),
    Case("gpt2-checkpoints", "gpt2_trainer.py", ("--tokens", "{data}/train.bin"), [fix("checkpoint-stall", "--save-steps 1000"), *workers("--dataloader-num-workers", 1), fix("sync-per-step", "--logging-steps 1000")],
         data="tokens", env=NO_TF, package="transformers", side="script"),
    Case("metrics-each-step", "metrics_each_step.py", (), [fix("host-work", "--metrics-every 50"), *workers("--workers", 1, 2)], package="scikit-learn", side="script", status="seen"),
    Case("ppo-gym", "ppo_gym.py", (), [fix("host-work", "--vector async"), fix("host-work", "--update-epochs 2")], package="gymnasium", side="script", status="seen"),
    Case("word-language-model", "word_language_model.py", ("--data", "{data}"), [fix("sync-per-step", "--log-interval 200")], data="tokens", side="script", status="seen"),
    Case("word-language-model-validates", "word_language_model.py", ("--data", "{data}", "--eval-interval", "10"),
         [fix("evaluation-share", "--eval-interval 1000"), fix("evaluation-share", "--eval-batches 8")], data="tokens", side="script"),
    Case("ignite-validates", "ignite_events.py", (), [fix("evaluation-share", "--validate-every 1000"), *workers("--workers", 1, 2)], package="pytorch-ignite", side="script", status="seen"),
    Case("accelerate-checkpoints", "accelerate_checkpoints.py", (), [fix("checkpoint-stall", "--checkpointing-steps 1000"), *workers("--workers", 1, 2)], package="accelerate", side="script"),
    Case("tensorboard-keywords", "tensorboard_keywords.py", (),
         [fix(("logging-stall", "host-work"), "--histograms-every 100"), fix(("logging-stall", "host-work"), "--weights-only"), fix(("logging-stall", "sync-per-step"), "--scalars-every 50"),
          *workers("--num-workers", 1)], package="tensorboardX", side="script"),
]  # fmt: skip

TENSORFLOW = [
    Case("tf-photos", "tf_photos.py", ("--photos", "{data}"),
         [fix(WORKERS, "--parallel-calls 2 --prefetch 2"), fix("dataloader-prefetch", "--prefetch 2"), fix(("input-cacheable", "input-decode"), "--cache")],
         data="photos", package="tensorflow", framework="tensorflow", status="seen"),
    Case("tf-generator", "tf_generator_cache.py", (), [fix(("input-cacheable", "input-remote-storage"), "--cache"), fix("dataloader-prefetch", "--prefetch 4"), fix("launch-bound", "--eager")],
         package="tensorflow", framework="tensorflow", status="seen"),
    Case("keras-torch-rendered", "keras_torch_sequence.py", (), [*workers("--workers", 2, 4, 8), fix("dataloader-prefetch", "--max-queue-size 40")], package="keras", framework="keras", status="seen"),
    Case("keras-checkpoints", "keras_callbacks.py", (), [fix("checkpoint-stall", "--save-freq 1000")], package="keras", framework="keras", side="script", status="seen"),
    Case("keras-jax-augment", "keras_jax_generator.py", (), [*workers("--workers", 2, 4), fix(("input-cacheable", "input-decode"), "--precomputed")], package="keras, jax", framework="keras", status="seen"),
    Case("jax-small-files", "flax_loop.py", ("--data", "{data}"), [fix(("input-small-files", "input-remote-storage", "input-cacheable"), "--packed")],
         data="records", mount={"open_us": 300, "read_us": 100}, package="jax, optax", framework="jax", status="seen"),
    Case("nnx-transformer", "nnx_transformer.py", ("--tokens", "{data}"), [fix("sync-per-step", "--log-every 1000")], data="tokens", package="flax, optax", framework="jax", side="script"),
    Case("keras-text", "tf_text_healthy.py", (), [fix("dataloader-prefetch", "--prefetch 16")], package="keras, tensorflow", framework="keras", side="script", status="seen"),
    Case("tf-ad-records", "tf_ad_records.py", ("--records", "{data}/train.tfrecord"),
         [fix("input-decode", "--vectorized"), fix(WORKERS, "--parallel-calls 2 --prefetch 2"), fix("dataloader-prefetch", "--prefetch 2"), fix("input-cacheable", "--cache")],
         data="ad_records", package="tensorflow", framework="tensorflow", status="seen"),
    Case("jax-tagger", "jax_tagger.py", ("--conll", "{data}/train.conll"),
         [fix("recompilation", "--pad-multiple 16"), fix("recompilation", "--pad-multiple 64"), fix("padding-waste", "--sort-by-length"), fix("sync-per-step", "--log-every 1000")],
         data="tagged", package="jax, optax", framework="jax", side="script", status="seen"),
    Case("keras-promoters", "keras_promoters.py", (),
         [fix("input-decode", "--table"), *workers("--workers", 2), fix(WORKERS, "--workers 2 --multiprocessing"), fix("dataloader-prefetch", "--max-queue-size 40")], package="keras, tensorflow", framework="keras", status="seen"),
    Case("keras-power", "keras_power.py", ("--csv", "{data}/power.csv"),
         [fix("dataloader-prefetch", "--prefetch 16"), fix("input-cacheable", "--cache"), fix("logging-stall", "--write-every 1000")], data="power", package="keras, tensorflow", framework="keras", side="script", status="seen"),
]  # fmt: skip

DEVICE = [
    Case("nanogpt-fp32", "nanogpt.py", ("--data", "{data}", "--max-iters", "80"),
         [fix(PRECISION, "--dtype bfloat16"), fix(PRECISION, "--tf32"), fix("sync-per-step", "--log-interval 100"), fix("small-batch", "--batch-size 24", batch_size="--batch-size")],
         device="a100", data="tokens", side="device"),
    Case("nanogpt-validates", "nanogpt.py", ("--data", "{data}", "--dtype", "bfloat16", "--eval-interval", "20", "--eval-iters", "20", "--max-iters", "141"),
         [fix("evaluation-share", "--eval-interval 1000"), fix("evaluation-share", "--eval-iters 4"), fix("sync-per-step", "--log-interval 100")], device="a100", data="tokens", side="device"),
    Case("unet-dice", "unet_segmentation.py", ("--amp",), [fix(("sync-per-step", "host-work"), "--metrics-every 50"), *workers("--workers", 2)], device="a100", side="device"),
    Case("unet-fp32", "unet_segmentation.py", ("--metrics-every", "50", "--steps", "140"), [fix(PRECISION, "--amp"), fix(PRECISION, "--tf32"), *workers("--workers", 2)], device="a100", side="device"),
    Case("dcgan-prints", "dcgan.py", (), [fix("sync-per-step", "--print-freq 50"), fix(PRECISION, "--amp"), fix("small-batch", "--batch-size 256", batch_size="--batch-size")], device="a100", side="device"),
    Case("resnet-pageable", "resnet_images.py", ("--size", "112", "--width", "32", "--amp"),
         [fix("pin-memory", "--pin-memory"), fix("input-decode", "--channels-last"), *workers("--workers", 4)], device="old_server", side="device"),
    Case("resnet-remote-store", "resnet_images.py", ("--read-ms", "1.5", "--amp", "--pin-memory", "--size", "64"),
         [*workers("--workers", 4, 8), fix("dataloader-prefetch", "--prefetch-factor 8", prefetch_factor=PREFETCH)], device="a100"),
    Case("ctr-small-batch", "ctr_tabular.py", (),
         [fix("small-batch", "--batch-size 2048", batch_size="--batch-size"), fix("launch-bound", "--optimizer fused"), fix(PRECISION, "--amp"), fix("sync-per-step", "--log-every 1000")], device="a100", side="device", status="seen"),
    Case("bert-padded", "bert_classifier.py", (),
         [fix("padding-waste", "--padding longest"), fix("padding-waste", "--padding longest --group-by-length"), fix("sync-per-step", "--logging-steps 1000"), *workers("--num-workers", 2)], device="t4", side="device"),
    Case("diffusion-empties-cache", "diffusion.py", (), [fix("allocator-churn", "--keep-cache"), fix(PRECISION, "--mixed-precision"), fix("sync-per-step", "--log-every 1000")], device="h100", side="device"),
    Case("vae-anomaly", "vae.py", (), [fix("debug-left-on", "--no-detect-anomaly"), fix(PRECISION, "--amp"), *workers("--workers", 2)], device="a100", side="device", status="seen"),
    Case("vit-checkpoints", "vit_checkpoints.py", ("--bf16", "--steps", "160"), [fix("checkpoint-stall", "--save-every 1000")], device="a100", side="device"),
    Case("vit-bf16", "vit_checkpoints.py", ("--bf16", "--save-every", "1000", "--batch", "256", "--steps", "100"), [fix("sync-per-step", "--print-every 1000"), fix(PRECISION, "--tf32")], device="a100", side="device", status="seen"),
    Case("detector-anchors", "detector.py", ("--steps", "150"), [fix("repeated-copy", "--anchors-on-device"), fix(PRECISION, "--amp"), *workers("--workers", 2)], device="old_server", side="device"),
    Case("dqn-simulator", "dqn.py", (), [fix("host-work", "--simulate-every 4"), fix(PRECISION, "--precision fp32"), fix("small-batch", "--batch-size 8192", batch_size="--batch-size")], device="a100", side="device"),
    Case("point-cloud-checks", "point_cloud.py", ("--points", "256"),
         [fix("sync-per-step", "--check-every 50 --mask"), fix("launch-bound", "--optimizer fused"), fix(PRECISION, "--bf16"), fix("small-batch", "--batch 128", batch_size="--batch")], device="a100", side="device"),
    Case("lstm-unrolled", "lstm_cells.py", (), [fix("launch-bound", "--cuda-graph"), fix("small-batch", "--batch-size 256", batch_size="--batch-size"), fix("sync-per-step", "--log-every 1000")], device="a100", side="device", status="seen"),
    Case("pinn-double", "pinn.py", (), [fix((PRECISION, "compute-bound"), "--dtype float32"), fix("sync-per-step", "--log-every 1000")], device="t4", side="device", status="seen"),
    Case("siamese-fsync", "siamese_logging.py", (), [fix("logging-stall", "--log-every 50"), fix("logging-stall", "--no-fsync"), fix(PRECISION, "--amp")], device="t4", side="device"),
    Case("forecaster-forgot-cuda", "forgot_cuda.py", ("--channels", "32"), [fix("gpu-unused", "--device cuda"), *workers("--workers", 1)], device="a100", side="device", status="seen"),
    Case("resnet-ema-loop", "resnet_ema.py", (),
         [fix("launch-bound", "--ema foreach"), fix("launch-bound", "--ema-every 10"), fix(("launch-bound", "sync-per-step"), "--optimizer fused"),
          fix("small-batch", "--batch-size 128", batch_size="--batch-size"), fix("sync-per-step", "--log-interval 1000")], device="t4", side="device"),
    Case("brain-volumes", "brain_volumes.py", (),
         [fix("blocking-copy", "--prefetch"), fix("blocking-copy", "--half-volumes"), fix("small-batch", "--batch-size 4", batch_size="--batch-size"), fix("sync-per-step", "--log-every 1000")],
         device="old_server", side="device"),
    Case("clip-adapter-text", "clip_adapter.py", (),
         [fix("repeated-copy", "--text-as-buffer"), fix("pin-memory", "--pin-text"), *workers("--workers", 2), fix("small-batch", "--batch-size 256", batch_size="--batch-size"),
          fix("sync-per-step", "--log-every 1000")], device="a100", side="device"),
    Case("yolo-targets", "yolo_targets.py", (),
         [fix("host-work", "--vectorized-targets"), fix("host-work", "--targets-in-workers --workers 2"), *workers("--workers", 2),
          fix("small-batch", "--batch-size 32", batch_size="--batch-size"), fix("sync-per-step", "--print-every 1000")], device="a100", side="script", status="seen"),
    Case("ddpm-samples", "ddpm_samples.py", (),
         [fix("evaluation-share", "--sample-every 1000"), fix("evaluation-share", "--sampling-steps 25"), fix("evaluation-share", "--num-samples 16"),
          fix("small-batch", "--batch-size 512", batch_size="--batch-size"), fix("sync-per-step", "--log-every 1000")], device="h100", side="script"),
    Case("caption-gc", "caption_gc.py", (),
         [fix("gc-pause", "--collect-every 1000"), fix("gc-pause", "--freeze"), fix("sync-per-step", "--loss-every 20"), *workers("--num-workers", 2),
          fix("small-batch", "--batch-size 512", batch_size="--batch-size")], device="a10", side="script"),
    Case("edsr-healthy", "edsr.py", (),
         [*workers("--n-threads", 2), fix("dataloader-prefetch", "--prefetch-factor 8", prefetch_factor=PREFETCH), fix("cudnn-autotune", "--benchmark"),
          fix("small-batch", "--batch-size 128", batch_size="--batch-size"), fix("sync-per-step", "--print-every 1000")], device="a100", side="device"),
    Case("simcse-healthy", "simcse.py", (),
         [*workers("--dataloader-num-workers", 2), fix("dataloader-prefetch", "--prefetch-factor 8", prefetch_factor=PREFETCH),
          fix("small-batch", "--per-device-train-batch-size 256", batch_size="--per-device-train-batch-size"), fix("sync-per-step", "--logging-steps 1000")], device="t4", side="device"),
]  # fmt: skip

COMPILED = [
    Case("spmv-residual", "spmv_solver.cu", (), [fix("sync-per-step", "--check-every 20")], device="a100", side="device", status="seen"),
    Case("speech-buffers", "speech_frontend.cu", (), [fix("allocator-churn", "--pool 1")], device="a100", side="device", status="seen"),
    Case("particle-operators", "particle_net.cu", (), [fix("launch-bound", "--graph 1")], device="a100", side="device"),
    Case("video-one-decoder", "video_reader.cu", ("--pinned", "1"), workers("--decoders", 2, 3, 4), device="a100"),
    Case("video-pageable", "video_reader.cu", ("--decoders", "4"), [fix("pin-memory", "--pinned 1"), *workers("--decoders", 8)], device="t4", side="device"),
    Case("video-healthy", "video_reader.cu", ("--decoders", "4", "--pinned", "1"), workers("--decoders", 8), device="h100", side="device"),
    Case("decoder-checks", "decoder_train.cu", (), [fix(("sync-per-step", "debug-left-on"), "--check 0"), fix("sync-per-step", "--loss-every 100")], device="a100", side="device"),
]  # fmt: skip

INPUT_2 = [
    Case("downscaling-grids", "downscaling_grids.py", ("--root", "{data}"),
         [fix(("input-cacheable", "input-storage"), "--mmap"), *workers("--workers", 1, 2, 4), fix("dataloader-prefetch", "--workers 2 --prefetch-factor 8", prefetch_factor=PREFETCH)], data="fields"),
    Case("spacy-tickets", "spacy_tickets.py", ("{data}/tickets.jsonl",),
         [fix(("collate-cost", "input-decode", "input-cacheable"), "--pretokenize"), *workers("--num-workers", 1, 2, 4), fix("padding-waste", "--max-tokens 100")], data="tickets", package="spacy"),
    Case("store-sales", "store_sales.py", (),
         [fix(("dataloader-oversubscribed", "collate-cost"), "--num-workers 0"), fix("collate-cost", "--stacked"), *workers("--num-workers", 1, 4),
          fix("dataloader-prefetch", "--prefetch-factor 8", prefetch_factor=PREFETCH), fix("sync-per-step", "--print-every 100000")]),
    Case("jax-siren", "jax_siren.py", (),
         [fix(("host-work", "logging-stall"), "--frame-every 1000"), fix(("host-work", "logging-stall"), "--dpi 50"), fix("evaluation-share", "--frame-size 32")],
         package="jax, optax, matplotlib", framework="jax", side="script"),
]  # fmt: skip

CASES = [*INPUT, *READERS, *SCRIPT, *TENSORFLOW, *DEVICE, *COMPILED, *INPUT_2]
