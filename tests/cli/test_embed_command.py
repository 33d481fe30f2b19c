"""`pfedfair embed` as a user types it."""

from made_encoders import pictures, tiny


def test_embed_tells_what_it_did(pfedfair, tmp_path):
    tiny(tmp_path / "dino")
    folder = pictures(tmp_path / "images", 4)
    (folder / "[bold]bad.jpg").touch()
    (folder / "labels.csv").touch()
    arguments = ("embed", "images", "--encoder", "dino", "--out", "e.parquet", "--threads", 1)
    code, out, _ = pfedfair(*arguments)
    assert code == 0
    assert "e.parquet: 4 images, 16 numbers each (dino, pooling cls)." in out
    assert "Skipped: 1; all of them are in e.skipped.csv." in out
    assert "  [bold]bad.jpg: an empty file" in out
    assert "Files not looked at, as hidden or no images: 1." in out
    code, out, _ = pfedfair(*arguments)
    assert code == 0
    assert "nothing was done" in out
    code, _, err = pfedfair(*arguments, "--pooling", "mean")
    assert code == 2
    assert "e.parquet exists and is of another pooling: choose another --out." in err


def test_embed_is_quiet_and_names_what_is_wrong(pfedfair, tmp_path):
    tiny(tmp_path / "dino")
    pictures(tmp_path / "images", 2)
    arguments = ("embed", "images", "--out", "e.parquet", "--encoder")
    assert pfedfair(*arguments, "dino", "--quiet", "--threads", 1) == (0, "", "")
    code, _, err = pfedfair(*arguments, "dinov")
    assert code == 2
    assert "There is no encoder or folder 'dinov': did you mean 'dinov2'?" in " ".join(err.split())


def test_a_stop_by_hand_says_that_work_is_kept(pfedfair, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("pfedfair.cli.embed.embed_images", interrupted)
    monkeypatch.setattr("os._exit", lambda code: exit(code))
    code, out, err = pfedfair("embed", "images", "--encoder", "dino", "--out", "e.parquet")
    assert code == 130
    assert "the same command goes on from there" in out
    assert "Interrupted." in err
