"""Files that Python workers write to a store, without Spark."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from calve.gateway import WorkerError, classify
from calve.iceberg.parquet import Format, Target, Told, written
from calve.iceberg.places import Bucket
from tests.servers.s3 import BUCKET, KEY, REGION, SECRET
from tests.servers.seaweed import SeaweedStore

pytestmark = pytest.mark.rest


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = SeaweedStore(tmp_path_factory.mktemp("store"))
    store.start()
    yield store
    store.remove()


def told(endpoint, secret=SECRET):
    schema = pa.schema([pa.field("id", pa.int64(), True, {b"PARQUET:field_id": b"1"})])
    bucket = Bucket(KEY, secret, None, REGION, endpoint, path_style=True)
    target = Target(schema, f"s3://{BUCKET}/orders/data", Format("zstd", 2**20), bucket=bucket)
    rows = pa.RecordBatch.from_pydict({"id": list(range(1000))})
    return Told.of(line for batch in written(list, target)([rows]) for line in batch.column(0).to_pylist())


def test_a_file_lies_in_the_store(store):
    (file,) = told(store.endpoint).files
    held = fs.S3FileSystem(access_key=KEY, secret_key=SECRET, endpoint_override=store.endpoint)
    path = file.location.removeprefix("s3://")
    assert held.get_file_info(path).size == file.bytes
    assert pq.read_table(path, filesystem=held).column("id").to_pylist() == list(range(1000))


def test_a_store_that_is_away_is_worth_waiting_for():
    with pytest.raises(WorkerError) as away:
        told("http://127.0.0.1:1")
    assert classify(str(away.value), "write").retryable


def test_keys_that_are_refused_are_not_waited_for(store):
    with pytest.raises(WorkerError) as refused:
        told(store.endpoint, "other")
    assert type(classify(str(refused.value), "write")).__name__ == "NotPermitted"
    assert "other" not in str(refused.value)
