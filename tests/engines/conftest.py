"""Engines that are not in every environment: python3 dev.py test --engines installs them."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.engines.loopback import free_port


def java_trouble():
    """Why Spark cannot run here; None if it can."""
    java = shutil.which("java")
    if java is None:
        return "Spark needs Java 17 or later, and there is none (Debian: openjdk-17-jre-headless)"
    said = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < 17:
        return f"Spark needs Java 17 or later, got {said.splitlines()[:1]}"
    return None


@pytest.fixture(scope="session")
def spark():
    """A session with two executors, each a process of its own, with one core."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: dev.py test --engines")
    if trouble := java_trouble():
        pytest.skip(trouble)
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(free_port()),
        "spark.log.level": "OFF",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "700",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,512]").appName("replearn")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connect(spark):
    """A client of the same cluster by way of Spark Connect."""
    pytest.importorskip("grpc_status", reason="pyspark[connect] is not installed")
    from pyspark.sql.connect.session import SparkSession

    port = spark.conf.get("spark.connect.grpc.binding.port")
    session = SparkSession(f"sc://127.0.0.1:{port}")
    yield session
    session.stop()
