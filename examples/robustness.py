"""A sentiment model under a robustness limit: behavioural tests as a constraint."""

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier

import acetune
from acetune.constraints.robustness import RobustnessCheck, sentiment_suite

GOOD = ("good", "great", "fun", "charming", "brilliant", "lovely", "moving", "clever")
BAD = ("bad", "awful", "boring", "dull", "clumsy", "dreadful", "tedious", "silly")
THINGS = ("film", "story", "cast", "script", "music", "scene", "plot", "ending")
NAMES = ("Ann", "Boris", "Chen", "Dana", "Emil", "Fatma")
FORMS = ("{name} finds the {thing} {word}.", "This {thing} is {word}", "A {word} {thing}!")


def made_reviews(count, seed):
    """Texts and labels; one word in ten is out of place."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for label in rng.integers(2, size=count):
        words = (BAD, GOOD)[label if rng.random() < 0.9 else 1 - label]
        name, thing, word = (rng.choice(options) for options in (NAMES, THINGS, words))
        texts.append(rng.choice(FORMS).format(name=name, thing=thing, word=word))
        labels.append(label)
    return texts, np.array(labels)


fit, select = made_reviews(2000, seed=0), made_reviews(500, seed=1)
suite = sentiment_suite()  # ten tests; load_checklist(path) reads CheckList's own


def train(trial):
    words = HashingVectorizer(ngram_range=(1, trial.params["words"]), analyzer=trial.params["of"])
    model = words, SGDClassifier(loss="log_loss", alpha=trial.params["alpha"], random_state=0)
    x = words.transform(fit[0])
    for _ in trial.steps(10):
        model[1].partial_fit(x, fit[1], classes=[0, 1])
        accuracy = np.mean((positive(model, select[0]) > 0.5) == select[1])
        trial.report(accuracy=accuracy, model=model)


def positive(model, texts):  # all texts of the suite at once, each of them once
    return model[1].predict_proba(model[0].transform(texts))[:, 1]


result = acetune.tune(
    train,
    space={
        "words": acetune.randint(1, 3),
        "of": acetune.choice(["word", "char_wb"]),
        "alpha": acetune.loguniform(1e-6, 0.3),
    },
    objective="accuracy",
    mode="max",
    constraints=[
        acetune.Constraint("afr", upper=0.2, margin_se=1, check=RobustnessCheck(suite, positive))
    ],
    max_trials=12,
    seed=0,
)
print(result)
