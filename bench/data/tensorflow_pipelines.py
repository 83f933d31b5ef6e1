"""The pipelines of bench/data/throughput.py in tf.data, with AUTOTUNE, as its performance guide recommends."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import pipelines as p
import tensorflow as tf

AUTOTUNE = tf.data.AUTOTUNE
ENDLESS = 1 << 40


def calls(f, dtype=tf.float32, shape=(16,)):
    def read(i):
        x = tf.numpy_function(f, [i], dtype)
        x.set_shape(shape)
        return x

    return tf.data.Dataset.range(ENDLESS).map(read, num_parallel_calls=AUTOTUNE)


def jpeg(folder):
    classes = sorted(os.listdir(f"{folder}/images"))
    files = [f"{folder}/images/{c}/{name}" for c in classes for name in os.listdir(f"{folder}/images/{c}")]
    labels = [classes.index(path.split("/")[-2]) for path in files]

    def read(path, label):
        content = tf.io.read_file(path)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(content),
            tf.zeros([1, 0, 4]),
            area_range=(0.08, 1.0),
            aspect_ratio_range=(3 / 4, 4 / 3),
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        image = tf.image.resize(tf.image.decode_and_crop_jpeg(content, window, channels=3), (224, 224))
        return (tf.image.random_flip_left_right(image) / 255 - p.MEAN) / p.DEVIATION, label

    return (
        tf.data.Dataset.from_tensor_slices((files, labels))
        .shuffle(len(files))
        .repeat()
        .map(read, num_parallel_calls=AUTOTUNE)
        .batch(64)
    )


def make(name, folder, _):
    if name == "io":
        dataset, count = calls(p.read_slowly).batch(16), 16
    elif name == "cpu":
        dataset, count = calls(p.compute).batch(16), 16
    elif name == "skewed":
        dataset, count = calls(p.read_unevenly).batch(16), 16
    elif name == "bursty":
        signature = tf.TensorSpec([16], tf.float32)
        dataset, count = tf.data.Dataset.from_generator(p.bursts, output_signature=signature).batch(16), 16
    elif name == "two_sources":
        dataset, count = tf.data.Dataset.zip((calls(p.read_slowly), calls(p.read_quickly))).batch(16), 16
    elif name == "tiny_batches":
        dataset = tf.data.Dataset.from_tensor_slices(p.tiny_arrays()).repeat().shuffle(100_000).batch(64)
        count = 64
    elif name == "tiny_map":  # vectorised: one call of each function for a batch
        dataset = (
            tf.data.Dataset.range(ENDLESS)
            .batch(256)
            .map(lambda x: x * 2, num_parallel_calls=AUTOTUNE)
            .map(lambda x: tf.boolean_mask(x, x % 3 > 0), num_parallel_calls=AUTOTUNE)
            .unbatch()
            .batch(256)
        )
        count = 256
    elif name == "tiny_calls":
        numbers = calls(lambda x: x * 2, tf.int64, []).filter(
            lambda x: tf.numpy_function(lambda x: x % 3 > 0, [x], tf.bool)
        )
        dataset, count = numbers.batch(256), 256
    elif name == "tiny_rows":
        dataset, count = tf.data.Dataset.from_tensor_slices(p.tiny_arrays()).repeat(), 1
    elif name == "jpeg":
        dataset, count = jpeg(folder), 64
    elif name == "tfrecord":
        features = {"x": tf.io.FixedLenFeature([256], tf.float32), "label": tf.io.FixedLenFeature([1], tf.int64)}
        dataset = (
            tf.data.TFRecordDataset(p.paths(folder, ".tfrecord"), num_parallel_reads=AUTOTUNE)
            .repeat()
            .batch(128)
            .map(lambda records: tf.io.parse_example(records, features), num_parallel_calls=AUTOTUNE)
        )
        count = 128
    elif name == "text":
        tokenizer = p.Tokenizer(f"{folder}/bpe.json")

        def encode(line):
            ids = tf.numpy_function(lambda text: tokenizer(text.decode()), [line], tf.int32)
            ids.set_shape([None])
            return ids

        dataset = (
            tf.data.TextLineDataset(f"{folder}/lines.txt")
            .repeat()
            .map(encode, num_parallel_calls=AUTOTUNE)
            .bucket_by_sequence_length(tf.size, p.BOUNDARIES, p.BATCH_SIZES)
        )
        count = len
    else:
        return None  # tf.data has no reader of these files
    return dataset.prefetch(AUTOTUNE), count
