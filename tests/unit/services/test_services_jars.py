"""The servers' jars: what Ivy is asked for, where it looks, and when a set counts as whole."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest

from springline.services.errors import JarsNotFoundError, UnknownServerError
from springline.services.packages.coordinates import JarSet, ivy_module, ivy_settings, jar_set, jar_sets, mirror_url
from springline.services.packages.jars import Jars, jar_sizes, progress_step
from springline.services.settings import ServiceSettings

MIRRORED = """
<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors>
  <mirror><id>no</id><mirrorOf>external:http:*</mirrorOf><url>http://0.0.0.0/</url><blocked>true</blocked></mirror>
  <mirror><id>ours</id><mirrorOf>{of}</mirrorOf><url>https://jars.example/maven</url></mirror>
</mirrors></settings>
"""
OURS = "https://jars.example/maven"


def test_every_coordinate_has_a_version_of_its_own():
    """`group:artifact:version`, a classifier after it or not, and no version that moves."""
    for jars in jar_sets().values():
        for coordinates in (*jars.jars, *jars.alone):
            group, artifact, version, *classifiers = coordinates.split(":")
            assert group and artifact and all(classifiers)
            assert version[0].isdigit() and not version.endswith(("+", "SNAPSHOT"))


def test_ivy_is_asked_for_all_that_a_jar_needs_but_for_those_that_stand_alone():
    """What is excluded is excluded wherever it turns up: a whole group, or one artifact."""
    jars = JarSet("some", jars=("a:b:1",), alone=("c:d:2", "h:i:3:exec"), exclude=("e", "f:g"))
    module = xml.fromstring(ivy_module(jars))
    asked = {(each.get("name"), each.get("transitive")) for each in module.iter("dependency")}
    assert asked == {("b", None), ("d", "false"), ("i", "false")}
    assert [each.get("ext") for each in module.iter("artifact")] == ["jar"]
    assert [(each.get("org"), each.get("module")) for each in module.iter("exclude")] == [("e", None), ("f", "g")]


def test_ivy_looks_at_maven_central_unless_it_is_given_another_repository(tmp_path):
    """A jar that stands alone is taken without the file that describes it."""
    jars = JarSet("some", jars=("a:b:1",), alone=("c:d:2",))
    plain = xml.fromstring(ivy_settings(jars, tmp_path, ""))
    assert {each.get("root") for each in plain.iter("ibiblio")} == {None}
    mirrored = xml.fromstring(ivy_settings(jars, tmp_path, "https://jars.example"))
    assert {each.get("root") for each in mirrored.iter("ibiblio")} == {"https://jars.example"}
    (alone,) = mirrored.iter("module")
    (without,) = [each for each in mirrored.iter("ibiblio") if each.get("name") == alone.get("resolver")]
    assert (alone.get("name"), without.get("usepoms")) == ("d", "false")


@pytest.mark.parametrize(("of", "address"), [("central", OURS), ("*", OURS), ("*,!central", ""), ("elsewhere", "")])
def test_mavens_own_settings_name_the_mirror(of, address):
    """The first mirror of Maven Central that is not blocked."""
    assert mirror_url(MIRRORED.format(of=of)) == address


def complete(folder: Path, jars_of_set: JarSet) -> None:
    """A set as it lies there once it was fetched."""
    folder.mkdir(parents=True)
    (folder / "a.jar").write_bytes(b"12345")
    stamp = {"coordinates": jars_of_set.fingerprint, "jars": jar_sizes(folder)}
    (folder / "complete.json").write_text(json.dumps(stamp))


def test_a_set_is_whole_as_long_as_no_jar_is_missing_cut_short_or_out_of_date(tmp_path):
    """Then nothing is fetched, so no network is needed."""
    jars = Jars(ServiceSettings(home=tmp_path, jars_dir=str(tmp_path / "jars")))
    kafka_jars = jar_set("kafka")
    assert not jars.is_complete(kafka_jars)
    folder = tmp_path / "jars" / "kafka"
    complete(folder, kafka_jars)
    assert jars.is_complete(kafka_jars)
    assert jars.folder("kafka") == folder
    assert not jars.is_complete(JarSet("kafka", jars=("org.apache.kafka:kafka_2.13:99",)))
    (folder / "a.jar").write_bytes(b"123")
    assert not jars.is_complete(kafka_jars)
    (folder / "a.jar").unlink()
    assert not jars.is_complete(kafka_jars)


@pytest.mark.parametrize("stamp", ["{", "[]", "{}"])
def test_a_set_whose_stamp_is_damaged_is_fetched_again(tmp_path, stamp):
    """It is said so, and nothing ends in a traceback."""
    messages = []
    jars = Jars(ServiceSettings(home=tmp_path, jars_dir=str(tmp_path / "jars")), say=messages.append)
    complete(tmp_path / "jars" / "kafka", jar_set("kafka"))
    (tmp_path / "jars" / "kafka" / "complete.json").write_text(stamp)
    assert not jars.is_complete(jar_set("kafka"))
    assert "complete.json is damaged" in messages[0] and "downloading them again" in messages[0]


def test_jars_that_cannot_be_fetched_are_an_error_that_names_the_setting(tmp_path):
    """With the end of what Ivy said; the half set is not taken for a whole one."""
    nowhere = f"file://{tmp_path}/no/repository"
    settings = ServiceSettings(home=tmp_path, jars_dir=str(tmp_path / "jars"), maven_repository=nowhere)
    jars = Jars(settings, say=lambda _: None)
    message = r"(?s)jars of spark .*SPRINGLINE_MAVEN_REPOSITORY.*alluxio-shaded-client"
    with pytest.raises(JarsNotFoundError, match=message):
        jars.folder("spark")
    assert not jars.is_complete(jar_set("spark"))
    assert list(tmp_path.rglob("ivysettings*")) == []  # a repository's password may be in there


def test_an_unknown_set_is_named():
    """With those that there are."""
    with pytest.raises(UnknownServerError, match=r"'kafak'.*kafka, hdfs, alluxio, schema-registry, s3, spark"):
        jar_set("kafak")


def test_progress_is_read_off_what_ivy_prints():
    """A module that was found, a jar that came."""
    assert progress_step("\tfound org.apache.kafka#kafka_2.13;4.3.1 in central\n") == "modules found"
    downloaded = "\t[SUCCESSFUL ] org.apache.kafka#kafka_2.13;4.3.1!kafka_2.13.jar (12ms)\n"
    assert progress_step(downloaded) == "jars downloaded"
    assert progress_step(":: resolving dependencies :: springline#kafka;working@here\n") == ""
